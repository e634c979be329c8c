"""The result files of every stage, written atomically at its end."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.data.load import TaskData
from understudy.errors import OutputError
from understudy.evaluation.bootstrap import Estimate
from understudy.evaluation.score import Score
from understudy.files import hash_file, sync_all, write_atomically
from understudy.workspace.folders import OUTCOMES, RESULT, TRAINING_FOLDER, TRIALS

logger = logging.getLogger(__name__)

_FILES = "files"  # the key of a part's hashes


def read_estimates(
    figures: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> dict[str, dict[str, Estimate]]:
    """Parse the figures of result.json by split and metric."""
    return {
        split: {name: Estimate(**figure) for name, figure in metrics.items()}
        for split, metrics in figures.items()
    }


@dataclass(frozen=True)
class StageResult:
    """A finished stage: its folder, if it has one, and the content of its result.json."""

    output_dir: Path | None
    content: dict[str, Any]

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Scores by split and metric; empty for a stage that scores nothing."""
        return {
            split: {name: figure["value"] for name, figure in metrics.items()}
            for split, metrics in self.content.get("scores", {}).items()
        }

    @property
    def intervals(self) -> dict[str, dict[str, Estimate]]:
        """Scores with their 95 % intervals, by split and metric."""
        return read_estimates(self.content.get("scores", {}))

    @property
    def hashes(self) -> dict[str, str]:
        """Hashes of the inputs."""
        return dict(self.content.get("hashes", {}))

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that produced it."""
        return dict(self.content["versions"])


def join_results(results: Mapping[str, StageResult], output_dir: Path) -> StageResult:
    """Return the results of several students as one."""
    contents = {name: one.content for name, one in results.items() if one.content}
    return StageResult(output_dir, {"students": contents} if contents else {})


def write_result(output_dir: Path, content: Mapping[str, Any]) -> None:
    """Write result.json, which marks the stage as finished, once everything else is on disk."""
    sync_all(output_dir)
    write_atomically(
        output_dir / RESULT, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    )


def write_part(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the result of a part of a command, with the hashes of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and _is_kept(folder, path))
    hashes = {path.relative_to(folder).as_posix(): hash_file(path) for path in files}
    write_result(folder, {**content, _FILES: hashes | {RESULT: _hash_content(content)}})


def read_part(folder: Path) -> dict[str, Any] | None:
    """Return the result of a part of a command; None if it is unfinished, or a file is damaged."""
    try:
        content: dict[str, Any] = json.loads((folder / RESULT).read_text("utf-8"))
        hashes = content.pop(_FILES, {})
        found = {name: hash_file(folder / name) for name in hashes if name != RESULT}
        found |= {RESULT: _hash_content(content)} if hashes else {}
    except FileNotFoundError as error:
        if Path(error.filename) != folder / RESULT:
            logger.warning("%s is missing, so it is made again.", error.filename)
        return None
    except (ValueError, AttributeError, TypeError):
        logger.warning("%s is damaged, so it is made again.", folder / RESULT)
        return None
    damaged = [name for name in hashes if found[name] != hashes[name]]
    if damaged:
        logger.warning("%s is not what was written, so it is made again.", folder / damaged[0])
        return None
    return content


def _is_kept(folder: Path, path: Path) -> bool:
    """Return whether a file belongs to the result of a part rather than to its training."""
    is_left = path.name.endswith(".writing")  # by a process that was killed
    return not is_left and path.relative_to(folder).parts[0] not in (RESULT, TRAINING_FOLDER, TRIALS)


def _hash_content(content: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "seconds"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def write_outcomes(output_dir: Path, scores: Mapping[str, Mapping[str, Score]]) -> None:
    """Save the outcome of every row, so that runs can be compared row by row later."""
    arrays = {
        f"{who}/{split}": score.predictions.outcomes
        for who, splits in scores.items()
        for split, score in splits.items()
    }

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_atomically(output_dir / OUTCOMES, write)


def read_outcomes(output_dir: Path, who: str, split: str) -> NDArray[np.float64]:
    """Read the outcomes of `student` or `teacher` on a split."""
    file = output_dir / OUTCOMES
    if not file.is_file():
        raise OutputError(f"{output_dir} has no {OUTCOMES}: an older version made it. Make it again.")
    with np.load(file) as arrays:
        found: NDArray[np.float64] = arrays[f"{who}/{split}"]
        return found


def data_content(data: TaskData) -> dict[str, Any]:
    """Return the part of result.json that describes the data."""
    return {
        "labels": data.labels,
        "columns": dict(data.columns),
        "counts": {
            split: {
                "rows": report.num_kept if report.num_used is None else report.num_used,
                "dropped": report.num_bad,
                **({"problems": report.problems} if report.problems else {}),
            }
            for split, report in data.reports.items()
        },
    }
