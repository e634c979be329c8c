"""Find the checkpoint to resume from: the newest one whose files are intact."""

from __future__ import annotations

from pathlib import Path

from understudy.files import is_whole_folder


def last_complete_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, or None.

    Trainer writes its files in place, so a process that dies leaves half a checkpoint. One without a seal, or
    that does not match its seal, is ignored.
    """
    numbered = [
        (int(path.name.removeprefix("checkpoint-")), path)
        for path in folder.glob("checkpoint-*")
        if path.name.removeprefix("checkpoint-").isdigit()
    ]
    return next((path for _, path in sorted(numbered, reverse=True) if is_whole_folder(path)), None)
