"""Students: how they are created in their teacher's family, or loaded."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from understudy.data.task import Task
from understudy.errors import ModelError, RecipeError
from understudy.models.cut import Cut, cut_weights, saved_cut
from understudy.models.families import (
    GENERIC,
    family_of,
    generic_config,
    known_families,
    named_sizes,
    own_sizes,
)
from understudy.models.fit import fit_layers
from understudy.models.layer_map import choose_layers
from understudy.models.pretrained import (
    build_model,
    load_config,
    load_encoder,
    load_model,
    load_tokenizer,
    set_dropout,
)
from understudy.models.settings import SHAPES, StudentSettings, check_start, check_width, parse_shape
from understudy.models.vocabulary import trim_model

logger = logging.getLogger(__name__)


def load_student(
    settings: StudentSettings,
    teacher: str,
    task: Task | None,
    labels: Sequence[str] | None,
    *,
    sample: Callable[[], Iterable[Mapping[str, Tensor]]],
    dropout: float | None = None,
    attention: str | None = None,
    fit: bool = True,
    precision: torch.dtype = torch.float32,
) -> tuple[PreTrainedModel, Cut | None]:
    """Load a student with the task's head: randomly initialised, saved, or cut.

    Args:
        task: the task, or None for a student without a head.
        teacher: its config gives vocabulary, positions and family; its tokenizer is used for both.
        sample: returns batches of encoder inputs, used to cut a narrower student and to fit it.
        dropout, attention: see `load_model`.
        fit: whether a cut student is fitted to its source, and a general student that was cut to the task's
            teacher, unless the settings say no.
        precision: the precision of the forward passes for fitting.

    Returns:
        The student, and how it was cut, if that was from the teacher or from a model of the same width.
    """
    check_start(settings)
    teacher_config = load_config(teacher)
    if settings.model is not None:
        if settings.vocabulary is None:
            check_vocabulary(settings.model, teacher)
        fitting = functools.partial(_fit, sample=sample, precision=precision) if fit else None
        return _load_saved(settings, teacher, task, labels, fitting, dropout=dropout, attention=attention)
    config = base_config(settings, teacher)
    if task is not None:
        task.kind.configure(config, labels, teacher_config)
    set_dropout(config, dropout)
    if attention is not None:
        config._attn_implementation = attention
    if task is not None:
        student = build_model(task.kind, config)
    else:
        student = transformers.AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    if settings.start != "cut":
        return student, None
    source = load_encoder(settings.source or teacher)
    if settings.source is not None:
        check_vocabulary(settings.source, teacher)
    choice = settings.layers or "spaced"
    layers = choose_layers(choice, config.num_hidden_layers, source.config.num_hidden_layers)
    cut = cut_weights(student, source, layers, sample)
    if fit and settings.fit is not False and not cut.is_copy:
        name = Path(settings.source).name if settings.source is not None else "its teacher"
        _fit(student, source, cut, name, sample=sample, precision=precision)
    if task is not None:
        task.kind.finish_cut(student, cut.hidden, source.config)
    return student, cut if source.config.hidden_size == teacher_config.hidden_size else None


def _load_saved(
    settings: StudentSettings,
    teacher: str,
    task: Task | None,
    labels: Sequence[str] | None,
    fit: Callable[[PreTrainedModel, PreTrainedModel, Cut, str], None] | None,
    **options: Any,
) -> tuple[PreTrainedModel, Cut | None]:
    """Load a saved student. For a task, one that was cut in general distillation is fitted to the teacher.

    Args:
        fit: None if it is not fitted.
        options: dropout and attention.
    """
    assert settings.model is not None
    if task is None and settings.fit is not None:
        raise RecipeError(
            "student.fit has no effect on a saved student in general distillation. Leave it out."
        )
    teacher_config = load_config(teacher)
    cut, source = saved_cut(settings.model), None
    if cut is not None:
        source = load_encoder(teacher)
        cut = cut if cut.fits(source) else None
    if task is None:
        return load_encoder(settings.model, **options), cut
    student = load_model(
        settings.model, task, labels, fine_tuned=False, teacher_config=teacher_config, **options
    )
    if settings.vocabulary is not None:
        trim_model(student, _ids_of_tokens(settings.model, teacher))
    if cut is None:
        if settings.fit:
            raise RecipeError(cannot_fit(settings.model))
        return student, None
    assert source is not None
    if fit is not None and settings.fit is not False:
        fit(student, source, cut, "its teacher")
    task.kind.finish_cut(student, cut.hidden, teacher_config)
    return student, cut


def cannot_fit(model: str) -> str:
    """Explain why a saved student cannot be fitted to its teacher."""
    return (
        f"student.fit needs a general student that was cut from the model that the teacher was fine-tuned "
        f"from, and {model} was not (understudy general --set student.init=cut makes one). Leave it out."
    )


def _fit(
    student: PreTrainedModel,
    source: PreTrainedModel,
    cut: Cut,
    source_name: str,
    *,
    sample: Callable[[], Iterable[Mapping[str, Tensor]]],
    precision: torch.dtype,
) -> None:
    fitted = fit_layers(student, source, cut, sample(), precision=precision)
    if fitted.after < fitted.before:
        logger.info(
            "The student is fitted to %s on %s tokens: its hidden states differ by %.3g instead of %.3g "
            "(mean square).",
            *(source_name, f"{fitted.tokens:,}", fitted.after, fitted.before),
        )
    else:
        logger.info("The student stays as it was: least squares brings it no nearer to %s.", source_name)


def base_config(settings: StudentSettings, teacher: str) -> Any:
    """Return the student's config before a run changes it."""
    if settings.model is not None:
        return load_config(settings.model)
    return student_config(settings, load_config(settings.source or teacher))


def student_config(settings: StudentSettings, teacher_config: Any) -> Any:
    """Return the teacher's config with the student's sizes."""
    if settings.target is not None and settings.shape is None:
        raise RecipeError(
            "student.target has no effect here: understudy run and distill choose a shape for it."
        )
    sizes = _shape_sizes(settings.shape, teacher_config)
    if settings.start == "cut":  # sizes that are not given stay the same, and a cut is nowhere wider
        own = own_sizes(teacher_config)
        if "intermediate_size" in sizes:
            sizes["intermediate_size"] = min(sizes["intermediate_size"], own["intermediate_size"])
        sizes = own | sizes
    sizes |= settings.sizes
    missing = {"num_hidden_layers", "hidden_size"} - set(sizes)
    if missing:
        raise RecipeError(
            f"student.{' and student.'.join(sorted(missing))} must be given, or a shape: student.shape="
            f"{next(iter(SHAPES))} (also {', '.join(list(SHAPES)[1:])}, or freely 6l-384d)."
        )
    sizes.setdefault("intermediate_size", 4 * sizes["hidden_size"])
    sizes.setdefault("num_attention_heads", teacher_config.num_attention_heads)
    check_width(sizes["hidden_size"], sizes["num_attention_heads"])
    if settings.family not in (None, GENERIC):
        raise RecipeError(f"student.family must be {GENERIC}, or left out; got {settings.family!r}.")
    if settings.family == GENERIC:
        return generic_config(teacher_config, sizes)
    if not family_of(teacher_config).can_resize:
        raise ModelError(
            f"a student of the family {teacher_config.model_type} cannot be given a free shape (known: "
            f"{known_families(lambda one: one.can_resize)}). Use --set student.family={GENERIC}: it reads "
            "with the same tokenizer."
        )
    return _resized(teacher_config, sizes)


def _shape_sizes(shape: str | None, teacher_config: Any) -> dict[str, int]:
    if shape is None:
        return {}
    return {"num_attention_heads": teacher_config.num_attention_heads} | parse_shape(shape)


# Specific to the teacher: lists with one entry per layer, and its origin.
_NOT_INHERITED = ("layer_types", "architectures", "_name_or_path", "dtype", "pooler_hidden_size")


def _resized(teacher_config: Any, sizes: Mapping[str, int]) -> Any:
    values = copy.deepcopy(teacher_config.to_dict())
    for name in _NOT_INHERITED:
        values.pop(name, None)
    values |= named_sizes(teacher_config, sizes)
    # Some families can factorise their embeddings; if they do not, the embeddings have the hidden size.
    if "embedding_size" in values and values["embedding_size"] >= teacher_config.hidden_size:
        values["embedding_size"] = sizes["hidden_size"]
    return type(teacher_config)(**values)


def _ids_of_tokens(model: str, teacher: str) -> list[int]:
    """Return the ids of a teacher's tokens in the larger vocabulary of a model, in the teacher's order."""
    ids, tokens = load_tokenizer(model).get_vocab(), load_tokenizer(teacher).get_vocab()
    if not tokens.keys() <= ids.keys():
        check_vocabulary(model, teacher)
    return [ids[token] for token in sorted(tokens, key=lambda token: tokens[token])]


def check_vocabulary(model: str, teacher: str) -> None:
    """Check that a student has the vocabulary of its teacher."""
    if load_tokenizer(model).get_vocab() != load_tokenizer(teacher).get_vocab():
        raise ModelError(
            f"{model} and the teacher {teacher} must share one tokenizer, and their vocabularies differ. "
            "Start from a shape instead (student.shape), or from a model of this teacher's family."
        )
