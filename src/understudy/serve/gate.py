"""The layer that every request passes: its id, its key, the limits, one log line, and the metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from understudy.serve.metrics import IN_FLIGHT, REQUESTS, SECONDS
from understudy.serve.settings import Limits

logger = logging.getLogger("understudy.requests")

# Health checks need no key.
_HEALTH = re.compile(r"/v2/health/(live|ready)|/v2/models/[^/]+/ready")
_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)


class RequestError(Exception):
    """A request that is refused, with its status code."""

    def __init__(self, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.headers = code, headers


class AsciiResponse(JSONResponse):
    """JSON in ASCII, so that half of a surrogate pair in a message is not an error of the server."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True).encode()


def error_response(error: RequestError) -> Response:
    """Return a refusal as JSON."""
    return AsciiResponse({"error": str(error)}, error.code, error.headers)


_NO_KEY = RequestError(
    401, "a valid key must be given: Authorization: Bearer KEY.", {"www-authenticate": "Bearer"}
)


class Gate:
    """The outermost layer of the application.

    Attributes:
        is_draining: whether the worker is about to stop; clients are then told to close their connections.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        api_key: str | None,
        span: Callable[[str], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._app = app
        self._key = api_key.encode() if api_key is not None else None
        self._span = span or (lambda _: nullcontext())
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        started, seen = time.perf_counter(), {"status": 500}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
                if self.is_draining:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        scope["understudy"] = {}  # the handlers add fields for the log
        is_health = _HEALTH.fullmatch(scope["path"]) is not None
        IN_FLIGHT.inc()
        try:
            if self._key is not None and not is_health and not self._has_key(headers):
                await error_response(_NO_KEY)(scope, receive, send_with_id)
            else:
                with self._span("understudy request"):
                    await self._app(scope, receive, send_with_id)
        finally:
            IN_FLIGHT.dec()
            seconds = time.perf_counter() - started
            path = _route(scope)
            REQUESTS.labels(path, seen["status"]).inc()
            SECONDS.labels(path).observe(seconds)
            if not is_health:
                _log(scope, request_id, seen["status"], seconds)

    def _has_key(self, headers: Headers) -> bool:
        assert self._key is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Compared in constant time, so that the time of an answer reveals nothing about the key.
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._key)


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the body of a request within the limits of size and time."""
    too_large = RequestError(413, f"a request may have at most {limits.body_bytes:,} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body_bytes:
                    raise too_large
    except TimeoutError:
        message = f"the request did not arrive within {limits.seconds:g} seconds."
        raise RequestError(408, message, {"connection": "close"}) from None
    return bytes(body)


def _route(scope: Scope) -> str:
    """Return the route of a request rather than its path, since anybody can invent paths."""
    route: Any = scope.get("route")
    return str(route.path) if route is not None else "other"


def _log(scope: MutableMapping[str, Any], request_id: str, status: int, seconds: float) -> None:
    """Write one JSON line. Headers and bodies are never logged."""
    if logger.isEnabledFor(logging.INFO):
        said = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request": request_id,
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "ms": round(1000 * seconds, 2),
            **scope["understudy"],
        }
        logger.info(json.dumps(said, ensure_ascii=True))
