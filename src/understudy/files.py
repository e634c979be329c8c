"""Files that are whole or not there, and that can be told from others."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, content: str | Callable[[Path], object]) -> None:
    """A reader sees the old file or the new one, never half of it, whoever else writes it too.

    Args:
        content: text, or what writes to the path it is given.
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.writing")
    try:
        if isinstance(content, str):
            temporary.write_text(content, "utf-8")
        else:
            content(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
