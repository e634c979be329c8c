"""Which checkpoint a run continues from."""

from __future__ import annotations

import json
from pathlib import Path


def last_complete_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end, None where there is none.

    Trainer writes in place, `trainer_state.json` last: a folder where it is missing or cut off was
    being written when the process died.
    """
    numbered = [
        (int(path.name.removeprefix("checkpoint-")), path)
        for path in folder.glob("checkpoint-*")
        if path.name.removeprefix("checkpoint-").isdigit()
    ]
    for _, path in sorted(numbered, reverse=True):
        try:
            json.loads((path / "trainer_state.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        return path
    return None
