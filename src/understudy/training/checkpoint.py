"""Find the checkpoint to resume from: the newest one whose files are intact."""

from __future__ import annotations

import json
from pathlib import Path

from understudy.files import hash_file, write_atomically

SEAL = "seal.json"


def seal_checkpoint(folder: Path) -> None:
    """Write the hash of every file next to the files, last and atomically.

    Trainer writes its files in place, so a process that dies leaves half a checkpoint. One without a seal, or
    that does not match its seal, is ignored.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    hashes = {str(path.relative_to(folder)): hash_file(path) for path in files}
    write_atomically(folder / SEAL, json.dumps(hashes, indent=2))


def last_complete_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, or None."""
    numbered = [
        (int(path.name.removeprefix("checkpoint-")), path)
        for path in folder.glob("checkpoint-*")
        if path.name.removeprefix("checkpoint-").isdigit()
    ]
    return next((path for _, path in sorted(numbered, reverse=True) if _is_whole(path)), None)


def _is_whole(folder: Path) -> bool:
    try:
        hashes = json.loads((folder / SEAL).read_text("utf-8"))
        return all(hash_file(folder / name) == expected for name, expected in hashes.items())
    except (OSError, ValueError):
        return False
