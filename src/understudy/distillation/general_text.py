"""General distillation: a student learns a pretrained teacher's layers on general text (TinyBERT Eq. 11,
Figure 2)."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainingArguments, set_seed

from understudy.data.corpus import HELD_OUT, TRAIN, open_corpus
from understudy.distillation.layers import LayerRows, learn_layers
from understudy.distillation.rows import choose_attention, fitting_precision, sample_batches
from understudy.distillation.runs import whole_batch
from understudy.errors import DataError, ModelError, RecipeError
from understudy.models.cut import Cut, save_cut
from understudy.models.pretrained import check_max_length, hash_tokenizer, load_encoder, load_tokenizer
from understudy.models.projections import saved_projections
from understudy.models.settings import STUDENT, check_start
from understudy.models.student import base_config, load_student
from understudy.models.teacher import freeze
from understudy.recipe.distillation import GeneralSettings
from understudy.recipe.recipe import Recipe
from understudy.training.arguments import build_arguments
from understudy.training.cpu import tune_cpu
from understudy.training.order import EndlessRows
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import TRAINING_FOLDER

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GeneralRun:
    """General distillation, ready to start.

    Attributes:
        corpus: the corpus' result.json.
        cut: how the student was cut from a model of the teacher's width, if it was.
        num_epochs: how many times the corpus is read.
    """

    recipe: Recipe
    settings: GeneralSettings
    arguments: TrainingArguments
    corpus: dict[str, Any]
    rows: LayerRows
    num_epochs: float
    student: PreTrainedModel
    cut: Cut | None
    teacher: PreTrainedModel


def prepare_general(recipe: Recipe, output_dir: Path) -> GeneralRun:
    """Open the corpus, initialise the student and load the teacher, without writing anything."""
    settings = recipe.general
    if settings is None:
        raise RecipeError("general must be given: this is not a recipe for general distillation.")
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
            "Build it again: understudy corpus --tokenizer with this teacher."
        )
    # Save by steps, not epochs: an epoch over many shards is too much to lose.
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
            f"general.training.eval_strategy: {settings.corpus} holds no text out. Build it again with a "
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
    student, cut = load_student(
        recipe.student,
        recipe.tokenizer_model,
        None,
        None,
        sample=lambda: sample_batches(tokenizer, rows.train, range(len(rows.train))),
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
        precision=fitting_precision(arguments),
    )
    try:
        check_max_length(student.config, tokenizer, corpus["corpus"]["max_length"], key="corpus.max_length")
    except ModelError as error:
        raise ModelError(f"{settings.corpus} must be built again: {error}") from None
    teacher = load_encoder(recipe.teacher)
    freeze(teacher)
    return GeneralRun(recipe, settings, arguments, corpus, rows, num_read / num_blocks, student, cut, teacher)


def learn_general(run: GeneralRun, output_dir: Path, shared: SharedTeacher | None = None) -> dict[str, Any]:
    """Train the student. See `learn_layers`. What it was cut from is saved with it, to fit it to teachers."""
    learnt = learn_layers(
        run.student,
        run.teacher,
        run.settings,
        run.arguments,
        run.rows,
        output_dir,
        cut=run.cut,
        learnt=saved_projections(run.recipe.student.model),
        padded=run.recipe.normalization == "padded",
        saved_config=base_config(run.recipe.student, str(run.recipe.teacher)),
        load_saved=load_encoder,
        num_epochs=run.num_epochs,
        shared=shared,
    )
    if learnt and run.cut is not None:
        save_cut(run.cut, output_dir / STUDENT)
    return learnt


def announce_general(run: GeneralRun) -> None:
    """Log what will be trained, and warn about what the corpus lacks."""
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
            "The corpus has one segment per block, so the student is not trained on a second one, which "
            "hurts tasks with pairs. Make the corpus with --set corpus.pairs=true if there will be any."
        )


def _lacks_second_segments(run: GeneralRun) -> bool:
    """Return whether the teacher has a second segment that never occurs in the corpus."""
    knows = "token_type_ids" in run.rows.tokenizer.model_input_names
    knows = knows and getattr(run.teacher.config, "type_vocab_size", 1) > 1
    return knows and not any(run.rows.train[0].get("token_type_ids", ()))
