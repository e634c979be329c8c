"""Patterns, atomic writes and content hashes of files."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import DataError

logger = logging.getLogger(__name__)

SEAL = "seal.json"
_LITTLE = 1 << 20  # bytes: a disk with less free space counts as full


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_pattern(source: str) -> bool:
    """Return whether a source is a glob pattern."""
    return not Path(source).expanduser().exists() and any(sign in source for sign in "*?[")


def is_place(source: str) -> bool:
    """Return whether a source of text is a URL, a pattern, or a file or folder that exists."""
    return "://" in source or Path(source).expanduser().exists() or is_pattern(source)


def check_text_source(source: str, key: str) -> None:
    """Refuse a text source that is neither a file, folder or pattern here nor possibly a dataset on the hub.

    Args:
        key: the setting that names it, in messages.
    """
    may_be_on_the_hub = "/" in source and not source.startswith((".", "~", "/"))
    if not (is_place(source) or may_be_on_the_hub):
        raise DataError(f"{key}: {source} is neither a file nor a folder here. Check the path.")


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write a NumPy array atomically, to a path with any suffix, after a file with its hash."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array)

    write_sealed(path, write)


def write_atomically(path: Path, content: str | Callable[[Path], object]) -> None:
    """Write a file so that readers see the old or the new content, never a part, even with several writers.

    The content is on disk before the file gets its name, so this also holds if the power fails.

    Args:
        content: the text, or a function that writes to the path it is given.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex}.writing")
    try:
        if isinstance(content, str):
            temporary.write_text(content, "utf-8")
        else:
            content(temporary)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_half_written(path: Path) -> None:
    """Remove half-written copies of a file left by processes of this machine that no longer run."""
    for half in path.parent.glob(f"{glob.escape(path.name)}.*.writing"):
        owner = half.name.removeprefix(f"{path.name}.").partition("-")[0]
        try:
            os.kill(int(owner), 0)
        except ProcessLookupError:
            half.unlink(missing_ok=True)
        except (ValueError, OSError):  # not a name of ours, or another user's process
            continue


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by the file system
            raise
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Wait until a folder and everything in it are on the disk."""
    for path in folder.rglob("*"):
        if path.is_file() or path.is_dir():
            sync(path)
    sync(folder)


def write_sealed(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, after a file with its hash; see `is_whole`."""

    def write_and_seal(temporary: Path) -> None:
        write(temporary)
        write_atomically(seal_of(path), hash_file(temporary))

    write_atomically(path, write_and_seal)


def is_whole(path: Path) -> bool:
    """Return whether a file exists and is as `write_sealed` wrote it."""
    if not path.exists():
        return False
    seal = seal_of(path)
    if seal.exists() and seal.read_bytes() == hash_file(path).encode():
        return True
    logger.warning("%s is not what was written, and is made again.", path)
    return False


def seal(path: Path) -> None:
    """Write the hash of a finished file next to it, once the file is on disk."""
    sync(path)
    write_atomically(seal_of(path), hash_file(path))


def seal_of(path: Path) -> Path:
    """Return the path of the file that holds a file's hash."""
    return path.with_name(path.name + ".sha256")


def seal_folder(folder: Path, without: Collection[str] = ()) -> None:
    """Write the hash of every file of a folder to `seal.json` in it, once all of them are on disk.

    Args:
        without: names of folders whose files may change or go.
    """
    sync_all(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    kept = [path for path in files if not set(path.relative_to(folder).parts) & set(without)]
    hashes = {path.relative_to(folder).as_posix(): hash_file(path) for path in kept}
    write_atomically(folder / SEAL, json.dumps(hashes, indent=2))


def is_whole_folder(folder: Path) -> bool:
    """Return whether the files that `seal_folder` recorded are unchanged."""
    try:
        hashes = json.loads((folder / SEAL).read_text("utf-8"))
        return all(hash_file(folder / name) == expected for name, expected in hashes.items())
    except (OSError, ValueError, AttributeError, TypeError):  # also if the seal is malformed
        return False


def is_full(path: Path) -> bool:
    """Return whether the disk of a file or folder is full."""
    there = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(there).free < _LITTLE
