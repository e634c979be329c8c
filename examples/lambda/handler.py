"""Answer the requests of AWS Lambda with a student: a function URL, API Gateway, or a direct call."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from understudy import Predictor
from understudy.errors import DataError

# Opened once, when an instance starts. Later calls find it in memory.
predict = Predictor(Path(__file__).parent / "artifact", threads=1)


def handler(event: dict[str, Any], _context: object = None) -> dict[str, Any]:
    """Predict the row in the body, or in the event itself: `{"text": "a fine film"}`."""
    try:
        return answer(200, predict(row_of(event)))
    except (DataError, ValueError) as error:
        return answer(400, {"error": str(error)})


def row_of(event: dict[str, Any]) -> Any:
    if "body" not in event:
        return event
    body = event["body"] or ""
    return json.loads(base64.b64decode(body) if event.get("isBase64Encoded") else body)


def answer(status: int, content: Any) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(content),
    }
