"""An artifact's folder, which is replaced as a whole, and its model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT, CARD, read_artifact
from understudy.artifacts.card import write_card
from understudy.files import sync, sync_all, write_atomically
from understudy.kinds import get_rows
from understudy.models.settings import student_inside
from understudy.workspace.origin import find_origin


def replace_artifact(folder: Path, made: Path) -> None:
    """Put a finished artifact in the place of an older one, removing only the old artifact's files.

    The file that marks the artifact as finished changes last. After an interruption it is still the old one,
    so the folder still counts as an artifact, and can be replaced.
    """
    if not folder.exists() or not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        made.replace(folder)
        sync(folder.parent)
        return
    files = [file.relative_to(made) for file in sorted(made.rglob("*")) if file.is_file()]
    for name in files:
        if name != Path(ARTIFACT):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).replace(folder / name)
    for old in {*map(Path, _old_files(folder))} - {*files}:
        (folder / old).unlink(missing_ok=True)
    for inner in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        if not any(inner.iterdir()):
            inner.rmdir()
    sync_all(folder)
    (made / ARTIFACT).replace(folder / ARTIFACT)
    sync(folder)


def _old_files(folder: Path) -> list[str]:
    """Return the files of the artifact in a folder; none if its description is damaged."""
    try:
        files = json.loads((folder / ARTIFACT).read_text("utf-8"))["files"]
        return [name for name in files if (folder / name).resolve().is_relative_to(folder.resolve())]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def speed_content(timed: Mapping[str, Any], teachers: Sequence[str] = ()) -> dict[str, Any]:
    """Return a benchmark's content for the model card: times of each form, and of the teacher's if timed."""
    forms = {name: model["form"] for name, model in timed["models"].items()}
    for teacher in teachers:
        forms[teacher] = f"teacher, {forms[teacher]}"
    rows = [{**row, "form": forms[row["model"]]} for row in timed["rows"]]
    for row in rows:
        del row["model"]
    return {"machine": timed["machine"], "rows": rows}


def add_speed_to_card(
    folder: Path, student: str | Path, timed: Mapping[str, Any], teachers: Sequence[str]
) -> None:
    """Rewrite an artifact's model card with times measured after the export, next to other models.

    Args:
        student: the exported model.
        timed: the content of a benchmark of the teacher, the student and the artifact.
        teachers: the teacher's names in the benchmark.
    """
    artifact = read_artifact(folder)
    artifact = replace(artifact, details={**artifact.details, "speed": speed_content(timed, teachers)})
    origin = find_origin(str(student), str(student_inside(student)))
    write_atomically(folder / CARD, write_card(artifact, origin, get_rows(artifact.kind)))
