"""What every stage leaves behind: result.json and recipe.yaml, written last and whole."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from transformers.utils.hub import cached_file, extract_commit_hash

from understudy.data.documents import is_pattern
from understudy.data.labels import fold
from understudy.data.load import TaskData
from understudy.data.sources import AUGMENTED_ROWS
from understudy.errors import ModelError, OutputError, RecipeError
from understudy.evaluation.score import Score
from understudy.files import hash_file, write_atomically
from understudy.models.pretrained import load_config
from understudy.models.student import STUDENT
from understudy.recipe.load import apply_settings
from understudy.recipe.recipe import Recipe

logger = logging.getLogger(__name__)

RESULT = "result.json"
OUTCOMES = "outcomes.npz"  # of every row, beside a distillation's result.json
TRAINING_FOLDER = "training"  # checkpoints and tracker logs, beside the model
RECIPE = "recipe.yaml"
# And its stages.
INTERMEDIATE, PREDICTION, SOFT_LABELS, PATIENT = "intermediate", "prediction", "soft-labels", "patient"
STAGES = (INTERMEDIATE, PREDICTION, SOFT_LABELS, PATIENT)
INPUTS = "inputs.json"
# The folders of a whole run.
TEACHER, AUGMENTED, DISTILLED, EVALUATION = "teacher", "augmented", "distilled", "evaluation"
ARTIFACT_FOLDER, BENCH = "artifact", "bench"


@dataclass(frozen=True)
class StageResult:
    """A finished stage: its folder (where it has one) and the content of its result.json."""

    output_dir: Path | None
    content: dict[str, Any]

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Split to metric to value."""
        return {
            split: {name: figure["value"] for name, figure in metrics.items()}
            for split, metrics in self.content["scores"].items()
        }


def saved_recipe(model: str | Path) -> Path | None:
    """In a model's folder, or above a student's, which is an ordinary model and nothing else."""
    folder = Path(model).expanduser()
    places = [folder / RECIPE] + ([folder.resolve().parent / RECIPE] if folder.name == STUDENT else [])
    return next((place for place in places if place.is_file()), None)


def why_no_recipe(model: str | Path) -> str:
    """What is said of a model where `saved_recipe` finds none."""
    is_folder = Path(model).expanduser().is_dir()
    return f"{model} has no {RECIPE} that would tell it" if is_folder else f"{model} is not a folder here"


def check_is_folder(output_dir: Path) -> None:
    """Refuse a file, and what would lie below one."""
    there = next(path for path in (output_dir, *output_dir.parents) if path.exists())
    if not there.is_dir():
        raise OutputError(f"--output-dir must be a folder; {there} is a file.")


def check_output(
    output_dir: Path, recipe: Recipe, *, overwrite: bool, may_differ: Sequence[str] = ()
) -> None:
    """Refuse a folder that is neither new nor the same run to be continued. Nothing is written yet.

    Args:
        may_differ: dotted keys that a run may be continued with other values of.
    """
    check_is_folder(output_dir)
    check_apart(output_dir, input_paths(recipe))
    if (output_dir / RESULT).exists() and not overwrite:
        raise OutputError(
            f"{output_dir} holds a finished run. Use --overwrite to replace it, or another --output-dir."
        )
    saved = output_dir / RECIPE
    if saved.exists() and not overwrite and not _same(saved.read_text("utf-8"), recipe, may_differ):
        raise OutputError(
            f"{output_dir} holds an unfinished run of another recipe (see {saved}). Use --overwrite to "
            "start anew, or another --output-dir."
        )
    is_ours = saved.exists() or (output_dir / RESULT).exists()
    if output_dir.is_dir() and not is_ours and any(output_dir.iterdir()):
        # Not even with --overwrite: it would remove files that no command of ours has written.
        raise OutputError(f"{output_dir} is not empty and not a run of ours. Use another --output-dir.")


def check_apart(output_dir: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output folder that contains what the command reads."""
    for given in inputs:
        path = Path(given).expanduser().resolve()
        if path.exists() and path.is_relative_to(output_dir.expanduser().resolve()):
            raise OutputError(
                f"--output-dir {output_dir} contains {given}, which this command reads. Use another "
                "--output-dir."
            )


def input_paths(recipe: Recipe) -> list[str]:
    """Paths and hub names of everything that a recipe reads."""
    data, student, augment = recipe.data, recipe.student, recipe.augment
    named = [
        recipe.model,
        recipe.teacher,
        student.model,
        student.source,
        *(data.source, data.train, data.dev, data.test, data.augmented),
        *((augment.model, augment.vectors, augment.vector_words) if augment is not None else ()),
        recipe.finetune.model if recipe.finetune is not None else None,
        recipe.soft_labels.predictions if recipe.soft_labels is not None else None,
        recipe.corpus.tokenizer if recipe.corpus is not None else None,
        recipe.general.corpus if recipe.general is not None else None,
    ]
    return [name for name in named if name is not None]


def _same(saved: str, recipe: Recipe, may_differ: Sequence[str]) -> bool:
    left_out = dict.fromkeys(may_differ)
    values = [yaml.safe_load(text) for text in (saved, recipe.to_yaml())]
    first, second = (apply_settings(value, left_out) for value in values)
    return first == second


def start_output(output_dir: Path, recipe: Recipe, hashes: Mapping[str, str], *, overwrite: bool) -> None:
    """Make the folder and write down what the run is made of; a run on other inputs is not continued."""
    inputs = json.dumps(hashes, indent=2) + "\n"
    saved = output_dir / INPUTS
    if saved.exists() and not overwrite and saved.read_text("utf-8") != inputs:
        raise OutputError(
            f"{output_dir} holds an unfinished run on other data or another model than there are now (see "
            f"{saved}). Use --overwrite to start anew, or another --output-dir."
        )
    if overwrite:
        (output_dir / RESULT).unlink(missing_ok=True)
        for name in (TRAINING_FOLDER, STUDENT, AUGMENTED_ROWS, *STAGES):
            shutil.rmtree(output_dir / name, ignore_errors=True)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{output_dir} cannot be made: {error.strerror}. Use another --output-dir."
        ) from None
    write_atomically(output_dir / RECIPE, recipe.to_yaml())
    write_atomically(saved, inputs)


def write_result(output_dir: Path, content: Mapping[str, Any]) -> None:
    """result.json: its presence says that the stage is finished."""
    write_atomically(
        output_dir / RESULT, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    )


def write_outcomes(output_dir: Path, scores: Mapping[str, Mapping[str, Score]]) -> None:
    """Save what every row came to, so that runs can be compared row by row later."""
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


def score_content(scores: Mapping[str, Score]) -> dict[str, Any]:
    """The part of result.json that holds figures."""
    return {
        "scores": {
            split: {name: asdict(figure) for name, figure in score.metrics.items()}
            for split, score in scores.items()
        },
        "details": {split: score.details for split, score in scores.items() if score.details},
    }


def data_content(data: TaskData) -> dict[str, Any]:
    """The part of result.json that says what was read."""
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


def versions() -> dict[str, str]:
    """Of everything that can change a figure."""
    names = ("torch", "transformers", "datasets", "tokenizers", "numpy")
    ours = {"python": platform.python_version(), "understudy": metadata.version("understudy-distill")}
    return ours | {name: metadata.version(name) for name in names}


# Beside weights and config, the files that decide how a model reads a text.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)


def hash_model(model: str) -> str:
    """Hash a model's weights, config and tokenizer; a hub model is its name and commit."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        try:
            commit = extract_commit_hash(cached_file(model, "config.json"), None)
        except OSError:
            load_config(model)  # says what is wrong
            raise
        if commit is None:
            raise ModelError(f"the hub's commit of {model!r} cannot be told. Save the model to a folder.")
        return f"{model}@{commit}"
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        is_named = file.name in ("config.json", *_TOKENIZER_FILES)
        if is_named or file.suffix in (".safetensors", ".bin", ".model"):
            digest.update(file.name.encode() + bytes.fromhex(hash_file(file)))
    return digest.hexdigest()


def hash_start(recipe: Recipe) -> dict[str, str]:
    """The hash of what a student is started from, where that is a model of its own."""
    name = recipe.student.model or recipe.student.source
    return {"student": hash_model(name)} if name is not None else {}


def refuse_other_stages(recipe: Recipe) -> None:
    """A stage that trains does nothing but that."""
    if recipe.augment is not None:
        raise RecipeError(
            "augment has no effect here. Run understudy augment first, and give its folder as "
            "data.augmented; or understudy run, which does it all."
        )
    for name in ("finetune", "export"):
        if getattr(recipe, name) is not None:
            raise RecipeError(
                f"{name} has no effect here: understudy run reads it. Run that, or leave it out."
            )


def resolve_paths(recipe: Recipe) -> Recipe:
    """Paths made absolute, so that a saved recipe works from any folder; hub names stay."""

    def absolute(value: str | None) -> str | None:
        path = Path(value).expanduser() if value is not None else None
        return str(path.resolve()) if path is not None and path.exists() else value

    names = ("source", "train", "dev", "test", "augmented")
    places = {name: absolute(getattr(recipe.data, name)) for name in names}
    return recipe.model_copy(
        update={
            "model": absolute(recipe.model),
            "teacher": absolute(recipe.teacher),
            "student": recipe.student.model_copy(
                update={
                    "model": absolute(recipe.student.model),
                    "source": absolute(recipe.student.source),
                }
            ),
            "augment": recipe.augment
            and recipe.augment.model_copy(
                update={
                    name: absolute(getattr(recipe.augment, name))
                    for name in ("model", "vectors", "vector_words", "stop_words")
                }
            ),
            "finetune": recipe.finetune
            and recipe.finetune.model_copy(update={"model": absolute(recipe.finetune.model)}),
            "soft_labels": recipe.soft_labels
            and recipe.soft_labels.model_copy(
                update={"predictions": absolute(recipe.soft_labels.predictions)}
            ),
            "data": recipe.data.model_copy(update=places),
            "corpus": recipe.corpus
            and recipe.corpus.model_copy(
                update={
                    "sources": recipe.corpus.sources
                    and [_absolute_pattern(str(absolute(source))) for source in recipe.corpus.sources],
                    "tokenizer": absolute(recipe.corpus.tokenizer),
                }
            ),
            "general": recipe.general
            and recipe.general.model_copy(update={"corpus": absolute(recipe.general.corpus)}),
        }
    )


def _absolute_pattern(source: str) -> str:
    is_local = "://" not in source and is_pattern(source)
    return str(Path(source).expanduser().absolute()) if is_local else source


def announce(data: TaskData) -> None:
    """Say which columns and labels are used, and what was left out or looks odd."""
    pairs = ", ".join(f"{field} = {column!r}" for field, column in data.columns.items())
    logger.info("Columns%s: %s", " (guessed; say otherwise with data.columns)" if data.guessed else "", pairs)
    if data.labels:
        shown = ", ".join(data.labels[:12]) + (" …" if len(data.labels) > 12 else "")
        logger.info("Labels (%d): %s", len(data.labels), shown)
        if len({fold(name) for name in data.labels}) < len(data.labels):
            logger.warning(
                "Some labels differ only in capitals or separators. Are they meant to be different?"
            )
        if len(data.labels) > max(20, max(report.num_kept for report in data.reports.values()) // 2):
            logger.warning("Nearly every row has a label of its own. Is this task: regression?")
    for report in data.reports.values():
        if report.num_bad:
            logger.warning("Left out: %s", report.describe())
