"""Patterns, atomic writes and content hashes of files."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_pattern(source: str) -> bool:
    """Return whether a source is a glob pattern."""
    return not Path(source).expanduser().exists() and any(sign in source for sign in "*?[")


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write a NumPy array atomically, to a path of any name."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array)

    write_atomically(path, write)


def write_atomically(path: Path, content: str | Callable[[Path], object]) -> None:
    """Write a file so that readers see the old or the new content, never a part, even with several writers.

    Args:
        content: the text, or a function that writes to the path it is given.
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
