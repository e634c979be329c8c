"""Names of models and datasets on the hub."""

from __future__ import annotations

from pathlib import Path


def split_revision(name: str) -> tuple[str, str | None]:
    """Split `name@revision` into both; an existing folder or file keeps its whole name.

    >>> split_revision("google-bert/bert-base-uncased@main")
    ('google-bert/bert-base-uncased', 'main')
    """
    if Path(name).expanduser().exists():
        return name, None
    name, _, revision = name.partition("@")
    return name, revision or None
