"""General distillation: a student learns a pretrained teacher's layers on general text (TinyBERT Eq. 11,
Figure 2)."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, TrainingArguments, set_seed

from understudy.data.corpus import HELD_OUT, TRAIN, open_corpus
from understudy.errors import DataError, ModelError, RecipeError
from understudy.models.pretrained import check_max_length, hash_tokenizer, load_encoder, load_tokenizer
from understudy.models.projections import saved_projections
from understudy.models.student import (
    STUDENT,
    base_config,
    check_start,
    load_student,
    place_shape,
    student_settings,
)
from understudy.models.teacher import freeze
from understudy.recipe.distillation import GeneralSettings
from understudy.recipe.load import load_recipe, parse_settings, what_is_given
from understudy.recipe.recipe import Recipe
from understudy.stages.intermediate import LayerRows, learn_layers, match
from understudy.stages.result import (
    TRAINING_FOLDER,
    StageResult,
    check_output,
    hash_model,
    hash_start,
    resolve_paths,
    start_output,
    versions,
    write_result,
)
from understudy.stages.training import (
    SAMPLE_ROWS,
    choose_attention,
    remove_checkpoints,
    sample_batches,
    whole_batch,
)
from understudy.training.arguments import build_arguments
from understudy.training.cpu import tune_cpu
from understudy.training.order import EndlessRows

logger = logging.getLogger(__name__)


def general(
    teacher: str | Path | None = None,
    *,
    output_dir: str | Path,
    corpus: str | Path | None = None,
    student: str | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
) -> StageResult:
    """Distil a pretrained teacher into a general student, the start of a student for any task.

    Args:
        teacher: a pretrained encoder, a folder or a hub name.
        corpus: a folder that `corpus` wrote with this teacher's tokenizer.
        student: a shape (`tinybert-4l-312d`, `6l-384d`), or a saved encoder to go on with; the recipe's
            where not given.
        recipe: a shipped name or a file; `general-tinybert` where not given.
        settings: over the recipe, e.g. `{"general.training.max_steps": 1000}`.
        output_dir: gets the student in `student/`, its losses, result.json and recipe.yaml. A run that was
            interrupted there continues.

    Example:
        >>> understudy.general(                                    # doctest: +SKIP
        ...     "bert-base-uncased", corpus="corpora/wiki", output_dir="students/general"
        ... ).content["held_out"]
        {'embeddings': {'first': …, 'last': …}, …}
    """
    given: dict[str, Any] = what_is_given({"teacher": teacher, "general.corpus": corpus})
    if student is not None:
        given |= student_settings(student)
    built = load_recipe(recipe or "general-tinybert", place_shape(given | parse_settings(settings)))
    return general_from_recipe(built, Path(output_dir), overwrite=overwrite)


def general_from_recipe(recipe: Recipe, output_dir: Path, *, overwrite: bool = False) -> StageResult:
    """General distillation as a recipe says; see `general`.

    In a distributed run every process returns, and the first one's result alone has content.
    """
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    # How a batch is shared among processes may change; how large it is may not.
    check_output(
        output_dir,
        recipe,
        overwrite=overwrite,
        may_differ=[
            f"general.training.{name}"
            for name in ("per_device_train_batch_size", "gradient_accumulation_steps")
        ],
    )
    run = prepare_general(recipe, output_dir)
    arguments, corpus = run.arguments, run.corpus
    match(run.student, run.teacher, run.settings, run.channels)  # before anything is written
    parameters = {"student": run.student.num_parameters(), "teacher": run.teacher.num_parameters()}
    hashes = {
        "blocks of a step": str(whole_batch(arguments)),
        "teacher": hash_model(str(recipe.teacher)),
        "corpus": hashlib.sha256(json.dumps(corpus["files"]).encode()).hexdigest(),
    }
    hashes |= hash_start(recipe)
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)
            _announce(run)
    learnt = learn_general(run, output_dir)
    if not learnt:
        return StageResult(output_dir, {})
    result = {
        "stage": "general",
        "model": str(output_dir / STUDENT),
        **learnt,
        "corpus": corpus["corpus"],
        "blocks": len(run.rows.train),
        "tokens": round(corpus["corpus"]["tokens"][TRAIN] * run.num_epochs),
        "epochs": round(run.num_epochs, 4),
        "parameters": parameters,
        "processes": arguments.world_size,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, result)
    remove_checkpoints(output_dir / TRAINING_FOLDER)
    return StageResult(output_dir, result)


@dataclass(frozen=True)
class GeneralRun:
    """General distillation, ready to start.

    Attributes:
        corpus: the corpus' result.json.
        channels: the teacher's, where the student's were cut from them.
        num_epochs: how often the corpus is read.
    """

    recipe: Recipe
    settings: GeneralSettings
    arguments: TrainingArguments
    corpus: dict[str, Any]
    rows: LayerRows
    num_epochs: float
    student: PreTrainedModel
    channels: Tensor | None
    teacher: PreTrainedModel


def prepare_general(recipe: Recipe, output_dir: Path) -> GeneralRun:
    """Open the corpus, start the student and load the teacher; nothing is written."""
    settings = recipe.general
    if settings is None:
        raise RecipeError("general must be given: this is no recipe for general distillation.")
    if recipe.teacher is None:
        raise RecipeError("teacher must be given: a folder or a hub name of a pretrained encoder.")
    if settings.corpus is None:
        raise RecipeError("general.corpus must be given: a folder that understudy corpus wrote.")
    check_start(recipe.student)
    tune_cpu()
    corpus, blocks = open_corpus(Path(settings.corpus))
    tokenizer = load_tokenizer(recipe.teacher)
    if hash_tokenizer(tokenizer) != corpus["hashes"]["tokenizer"]:
        raise DataError(
            f"general.corpus: {settings.corpus} was made with another tokenizer than {recipe.teacher} has. "
            "Make it anew: understudy corpus --tokenizer with this teacher."
        )
    # Steps and not epochs: an epoch of many shards is too much to lose.
    own = {
        "seed": recipe.seed,
        "eval_strategy": "no",
        "save_strategy": "steps",
        "train_sampling_strategy": "sequential",
        "ddp_find_unused_parameters": True,
    }
    arguments = build_arguments({**own, **settings.training}, output_dir / TRAINING_FOLDER)
    if arguments.eval_strategy != "no" and not len(blocks[HELD_OUT]):
        raise DataError(
            f"general.training.eval_strategy: {settings.corpus} holds no text out. Make it anew with a "
            "larger corpus.held_out."
        )
    num_blocks, batch_size = len(blocks[TRAIN]), whole_batch(arguments)
    if arguments.max_steps <= 0:
        arguments.max_steps = math.floor(arguments.num_train_epochs * num_blocks / batch_size)
    if arguments.max_steps == 0 or num_blocks == 0:
        raise DataError(
            f"general.corpus: {num_blocks} blocks for {arguments.num_train_epochs:g} epochs do not fill one "
            f"batch of {batch_size}. Give more text, or smaller batches."
        )
    num_read = arguments.max_steps * batch_size
    seed = arguments.seed if arguments.data_seed is None else arguments.data_seed
    rows = LayerRows(tokenizer, EndlessRows(blocks[TRAIN], num_read, seed), blocks[HELD_OUT])
    set_seed(arguments.seed)
    sample = range(min(SAMPLE_ROWS, len(rows.train)))
    student, channels = load_student(
        recipe.student,
        recipe.reader,
        None,
        None,
        sample=lambda: sample_batches(tokenizer, rows.train, sample),
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
    )
    try:
        check_max_length(student.config, tokenizer, corpus["corpus"]["max_length"], key="corpus.max_length")
    except ModelError as error:
        raise ModelError(f"{settings.corpus} must be made anew: {error}") from None
    teacher = load_encoder(recipe.teacher)
    freeze(teacher)
    return GeneralRun(
        recipe, settings, arguments, corpus, rows, num_read / num_blocks, student, channels, teacher
    )


def learn_general(run: GeneralRun, output_dir: Path) -> dict[str, Any]:
    """Train the student; see `learn_layers`."""
    return learn_layers(
        run.student,
        run.teacher,
        run.settings,
        run.arguments,
        run.rows,
        output_dir,
        channels=run.channels,
        learnt=saved_projections(run.recipe.student.model),
        padded=run.recipe.normalization == "padded",
        saved_config=base_config(run.recipe.student, str(run.recipe.teacher)),
        load_saved=load_encoder,
        num_epochs=run.num_epochs,
    )


def _announce(run: GeneralRun) -> None:
    config = run.student.config
    logger.info(
        "Student: %d layers of %d, %.1fM parameters. %s steps of %d blocks: %.2f epochs of %s blocks",
        config.num_hidden_layers,
        config.hidden_size,
        run.student.num_parameters() / 1e6,
        f"{run.arguments.max_steps:,}",
        whole_batch(run.arguments),
        run.num_epochs,
        f"{run.corpus['corpus']['blocks'][TRAIN]:,}",
    )
    if not len(run.rows.held_out):
        logger.warning("The corpus holds nothing out: losses are those of training alone.")
    if run.recipe.student.start != "cut" and _lacks_second_segments(run):
        logger.warning(
            "The corpus has one segment a block: what the student makes of a second one stays as it is, and "
            "tasks of pairs start behind. Make the corpus with --set corpus.pairs=true if there will be any."
        )


def _lacks_second_segments(run: GeneralRun) -> bool:
    """Whether the teacher tells two segments apart, and the corpus never shows the second one."""
    knows = "token_type_ids" in run.rows.tokenizer.model_input_names
    knows = knows and getattr(run.teacher.config, "type_vocab_size", 1) > 1
    return knows and not any(run.rows.train[0].get("token_type_ids", ()))
