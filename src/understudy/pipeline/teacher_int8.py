"""The alternative to a student: its teacher in int8, exported, scored and timed beside it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT
from understudy.stages.export import export
from understudy.workspace.folders import TEACHER_INT8
from understudy.workspace.hashes import versions
from understudy.workspace.result import write_result

logger = logging.getLogger(__name__)

# The report shows its score, so int8 may lose any number of points, and no part has to stay in fp32.
_TOLERANCE = 100.0


def export_teacher(teacher: str, folder: Path, *, recipe: Path) -> None:
    """Export a run's teacher to int8; a failure to export it is recorded, and the run continues.

    Args:
        folder: the folder of the run.
        recipe: the file that names the task and the data.
    """
    target = folder / TEACHER_INT8
    content: dict[str, Any] = {"stage": TEACHER_INT8}
    try:
        if not (target / ARTIFACT).is_file():  # otherwise it was interrupted right after the export
            export(teacher, output_dir=target, recipe=recipe, tolerance=_TOLERANCE, speed=False)
    except (OSError, MemoryError):  # e.g. a full disk, which is not the teacher's fault
        raise
    except Exception as error:  # anything that the exporter raises
        logger.warning("The teacher cannot be exported to int8, so the run goes on without: %s", error)
        content["failed"] = str(error) or type(error).__name__
    else:
        artifact = json.loads((target / ARTIFACT).read_text("utf-8"))
        content |= {
            "scores": artifact["models"]["int8"]["scores"],
            "difference": artifact["details"]["gate"]["int8"]["difference"],
            "bytes": artifact["models"]["int8"]["bytes"],
            "kept_in_fp32": artifact["models"]["int8"]["kept_in_fp32"],
        }
    target.mkdir(exist_ok=True)
    write_result(target, content | {"versions": versions()})


def teacher_int8_line(content: Mapping[str, Any]) -> str:
    """Format the score and the size of the teacher in int8, or that there is none."""
    if "failed" in content:
        return "not possible for this teacher"
    split, metrics = next(iter(content["scores"].items()))
    shown = ", ".join(f"{name} {figure['value']:.3f}" for name, figure in metrics.items())
    return f"{split} {shown}, {content['bytes'] / 1e6:.1f} MB"
