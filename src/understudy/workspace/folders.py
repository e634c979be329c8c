"""Output folders: their layout, and which may be resumed or replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from understudy.artifacts.artifact import ARTIFACT
from understudy.data.sources import AUGMENTED_ROWS
from understudy.errors import OutputError, RecipeError
from understudy.files import write_atomically
from understudy.models.settings import STUDENT
from understudy.recipe.load import apply_settings
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import input_paths

RESULT = "result.json"
OUTCOMES = "outcomes.npz"  # per row, next to a distillation's result.json
FOLDS = "folds"  # teachers of parts of the rows, next to the teacher
FOUND = "found"  # what a search has found so far, removed at the end
HASHES = "documents"  # hashes of a corpus's documents, removed at the end
TRAINING_FOLDER = "training"  # checkpoints and tracker logs, next to the model
TRIALS = "trials"  # of a search, until it is finished
RECIPE = "recipe.yaml"
STATE = "stages.json"  # input digests of each stage of a whole run, and the seconds it took

# The stages of a distillation.
INTERMEDIATE, PREDICTION, JOINT = "intermediate", "prediction", "joint"
SOFT_LABELS, PATIENT = "soft-labels", "patient"
STAGES = (INTERMEDIATE, PREDICTION, JOINT, SOFT_LABELS, PATIENT)
INPUTS = "inputs.json"

# The folders of a whole run, besides models.settings.DISTILLED.
TEACHER, AUGMENTED, EVALUATION = "teacher", "augmented", "evaluation"
ARTIFACT_FOLDER, TEACHER_INT8, BENCH = "artifact", "teacher-int8", "bench"


def check_is_folder(output_dir: Path) -> None:
    """Refuse an output folder that is a file, or lies below one."""
    there = next(path for path in (output_dir, *output_dir.parents) if path.exists())
    if not there.is_dir():
        raise OutputError(f"--output-dir must be a folder; {there} is a file.")


def check_output(
    output_dir: Path, recipe: Recipe, *, overwrite: bool, may_differ: Sequence[str] = ()
) -> None:
    """Refuse a folder that is neither new nor a run of the same recipe to resume.

    Args:
        may_differ: dotted keys whose values may change when a run is resumed.
    """
    check_free(output_dir)
    check_apart(output_dir, input_paths(recipe))
    if (output_dir / RESULT).exists() and not overwrite:
        remove_leftovers(output_dir)  # in case it was interrupted after writing its result
        refuse_finished(output_dir)
    saved = output_dir / RECIPE
    if (
        saved.exists()
        and not overwrite
        and not _same(saved.read_text("utf-8", "replace"), recipe, may_differ)
    ):
        raise OutputError(
            f"{output_dir} holds an unfinished run of another recipe (see {saved}). Use --overwrite to "
            "start anew, or another --output-dir."
        )


def refuse_finished(output_dir: Path) -> None:
    """Refuse a folder with a finished run, unless files are left in it that only an unfinished one needs."""
    if (output_dir / RESULT).exists() and not _leftovers(output_dir):
        raise OutputError(
            f"{output_dir} holds a finished run. Use --overwrite to replace it, or another --output-dir."
        )


def remove_leftovers(output_dir: Path) -> None:
    """Remove what only an unfinished run needs: checkpoints, half-written files, seals, search results."""
    for path in _leftovers(output_dir):
        # Some lie in folders that are removed before them.
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _leftovers(output_dir: Path) -> list[Path]:
    patterns = (FOUND, HASHES, f"**/{TRAINING_FOLDER}/checkpoint-*", "*/*.sha256", "**/*.writing")
    return [path for pattern in patterns for path in output_dir.glob(pattern)]


def refuse_single_run(output_dir: Path) -> None:
    """Refuse to put several students into a folder that holds a single student's run."""
    if (output_dir / RECIPE).exists():
        raise OutputError(f"{output_dir} holds a run of one student. Use another --output-dir for several.")


def check_free(output_dir: Path, marks: Sequence[str] = (RECIPE, RESULT)) -> None:
    """Refuse a folder that is neither empty nor ours.

    Args:
        marks: files, at least one of which a folder of ours has.
    """
    check_is_folder(output_dir)
    is_ours = any((output_dir / name).exists() for name in marks)
    # A run that was killed while it wrote its first file has left half of it.
    others = [path for path in output_dir.glob("*") if path.suffix != ".writing"]
    if not is_ours and others:
        # Not even with --overwrite, which would remove files that we did not write.
        raise OutputError(
            f"{output_dir} is not empty, and understudy did not write it. Use another --output-dir."
        )


def check_artifact_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse to write an artifact into a folder in use, unless it holds one that may be replaced."""
    check_is_folder(folder.resolve())
    is_artifact = (folder / ARTIFACT).is_file()
    if folder.is_dir() and any(folder.iterdir()) and not (is_artifact and overwrite):
        remedy = (
            "Use --overwrite to replace it, or another"
            if is_artifact
            else "It is not an artifact: use another"
        )
        raise OutputError(f"{folder} is there already. {remedy} --output-dir.")


def check_apart(output_dir: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output folder that contains an input of the command."""
    for given in inputs:
        path = Path(given).expanduser().resolve()
        if path.exists() and path.is_relative_to(output_dir.expanduser().resolve()):
            raise OutputError(
                f"--output-dir {output_dir} contains {given}, which this command reads. Use another "
                "--output-dir."
            )


def _same(saved: str, recipe: Recipe, may_differ: Sequence[str]) -> bool:
    left_out = dict.fromkeys(may_differ)
    try:
        found = yaml.safe_load(saved)
    except yaml.YAMLError:
        return False  # damaged
    if not isinstance(found, dict):
        return False
    ours, theirs = (apply_settings(one, left_out) for one in (yaml.safe_load(recipe.to_yaml()), found))
    return _without_empty_blocks(ours) == _without_empty_blocks(theirs)


def _without_empty_blocks(values: Mapping[str, Any]) -> dict[str, Any]:
    inner = {
        name: _without_empty_blocks(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return {name: value for name, value in inner.items() if value != {}}


def start_output(output_dir: Path, recipe: Recipe, hashes: Mapping[str, str], *, overwrite: bool) -> None:
    """Create the folder and record the run's inputs; refuse to resume a run on other inputs."""
    inputs = json.dumps(hashes, indent=2) + "\n"
    saved = output_dir / INPUTS
    if saved.exists() and not overwrite and saved.read_text("utf-8") != inputs:
        raise OutputError(
            f"{output_dir} holds an unfinished run on other data or another model than there are now (see "
            f"{saved}). Use --overwrite to start anew, or another --output-dir."
        )
    if overwrite:
        (output_dir / RESULT).unlink(missing_ok=True)
        for name in (TRAINING_FOLDER, STUDENT, AUGMENTED_ROWS, FOLDS, FOUND, *STAGES):
            shutil.rmtree(output_dir / name, ignore_errors=True)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{output_dir} cannot be made: {error.strerror}. Use another --output-dir."
        ) from None
    write_atomically(output_dir / RECIPE, recipe.to_yaml())
    write_atomically(saved, inputs)


def refuse_figures(model: str) -> None:
    """Refuse the result of an earlier timing, where a model to time is expected."""
    result = Path(model) / RESULT
    is_timing = result.is_file() and json.loads(result.read_text("utf-8")).get("stage") == "bench"
    if Path(model).suffix == ".json" or is_timing:
        raise RecipeError(
            f"{model} holds figures of another run. Times of different runs cannot be compared. Give the "
            "models themselves, and they are measured together."
        )
