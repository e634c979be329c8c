"""Students: their shapes by name, and how they are created in their teacher's family, or loaded."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import transformers
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from transformers import PreTrainedModel

from understudy.data.task import Task
from understudy.errors import ModelError, RecipeError
from understudy.models.cut import LayerChoice, choose_layers, cut_weights
from understudy.models.families import (
    GENERIC,
    SIZES,
    family_of,
    generic_config,
    known_families,
    named_sizes,
    own_sizes,
)
from understudy.models.pretrained import (
    load_config,
    load_encoder,
    load_model,
    load_tokenizer,
    set_dropout,
)

STUDENT = "student"  # the folder that a distillation saves its model in
# TinyBERT, section 4.1, and other sizes from the ICLR version.
SHAPES: Mapping[str, Mapping[str, int]] = {
    name: dict(
        zip(
            SIZES,
            sizes,
            strict=True,
        )
    )
    for name, sizes in {
        "tinybert-4l-312d": (4, 312, 1200, 12),
        "tinybert-4l-768d": (4, 768, 3072, 12),
        "tinybert-6l-312d": (6, 312, 1200, 12),
        "tinybert-6l-768d": (6, 768, 3072, 12),
    }.items()
}
_FREE_SHAPE = re.compile(r"(\d+)l-(\d+)d")

Size = Annotated[int, Field(ge=1)]


class StudentSettings(BaseModel):
    """The `student:` block of a recipe: a shape, or a saved student to train further."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: str | None = None
    """A name (`tinybert-4l-312d`), or layers and width (`6l-384d`: feed-forward part four times as wide, as
    many heads as the teacher)."""
    init: Literal["random", "general", "cut"] | None = None
    """`random` draws the weights, `general` starts from `model`, `cut` takes them from the teacher. Defaults
    to `general` with a model and `random` without."""
    model: str | None = None
    """A saved encoder to start from, e.g. a general student: a folder or a hub name."""
    source: str | None = None
    """The model that a student is cut from, e.g. the pretrained model. Defaults to the teacher."""
    layers: LayerChoice | list[int] | None = None
    """The source layers that a cut keeps: `first`, `spaced`, `last` or a list. Defaults to `spaced`."""
    family: str | None = None
    """`bert`, or None for the teacher's own family."""
    num_hidden_layers: Size | None = None
    hidden_size: Size | None = None
    intermediate_size: Size | None = None
    num_attention_heads: Size | None = None

    @property
    def start(self) -> str:
        """`init`, or its default."""
        return self.init or ("general" if self.model is not None else "random")

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes given individually, which override the shape's."""
        return {name: getattr(self, name) for name in SIZES if getattr(self, name) is not None}


def parse_student(name: str) -> dict[str, str]:
    """Parse `--student NAME`: a shape if it looks like one, otherwise a saved model."""
    if name not in SHAPES and Path(name).expanduser().is_dir():
        return {"model": str(student_inside(name))}
    # A name that begins like a shape is a misspelt shape, and is refused as such.
    is_shape = name in SHAPES or re.match(r"\d+l|tinybert-", name)
    return {"shape": name} if is_shape else {"model": name}


def student_inside(model: str | Path) -> str | Path:
    """Return the student in a distillation's folder; any other model is returned as it is."""
    student = Path(model).expanduser() / STUDENT
    return student if (student / "config.json").is_file() else model


def student_settings(name: str) -> dict[str, Any]:
    """Return the settings for `--student NAME`: the shape, or the whole block for a saved model."""
    start = parse_student(name)
    if "shape" not in start:
        return {"student": start}
    return {"student.model": None, "student.shape": start["shape"]}


def override_sizes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which a given shape replaces the recipe's sizes, which would override it."""
    sizes = [f"student.{name}" for name in SIZES] if "student.shape" in settings else []
    return {**dict.fromkeys(sizes), **settings}


def load_student(
    settings: StudentSettings,
    teacher: str,
    task: Task | None,
    labels: Sequence[str] | None,
    *,
    sample: Callable[[], Iterable[Mapping[str, Tensor]]],
    dropout: float | None = None,
    attention: str | None = None,
) -> tuple[PreTrainedModel, Tensor | None]:
    """Load a student with the task's head: randomly initialised, saved, or cut.

    Args:
        task: the task, or None for a student without a head.
        teacher: its config gives vocabulary, positions and family; its tokenizer is used for both.
        sample: returns batches of encoder inputs, used to cut a narrower student.
        dropout, attention: see `load_model`.

    Returns:
        The student, and the teacher's channels that its own correspond to, if it was cut from the teacher or
        from a model of the same width.
    """
    check_start(settings)
    if settings.model is not None:
        _check_vocabulary(settings.model, teacher)
        options: dict[str, Any] = {"dropout": dropout, "attention": attention}
        if task is None:
            return load_encoder(settings.model, **options), None
        return load_model(settings.model, task, labels, fine_tuned=False, **options), None
    config = base_config(settings, teacher)
    if task is not None:
        task.kind.configure(config, labels)
    set_dropout(config, dropout)
    if attention is not None:
        config._attn_implementation = attention
    auto_class = task.auto_class if task is not None else "AutoModel"
    student: PreTrainedModel = getattr(transformers, auto_class).from_config(config)
    if settings.start != "cut":
        return student, None
    source = load_encoder(settings.source or teacher)
    if settings.source is not None:
        _check_vocabulary(settings.source, teacher)
    choice = settings.layers or "spaced"
    layers = choose_layers(choice, config.num_hidden_layers, source.config.num_hidden_layers)
    channels = cut_weights(student, source, layers, sample)
    return student, channels if source.config.hidden_size == load_config(teacher).hidden_size else None


def base_config(settings: StudentSettings, teacher: str) -> Any:
    """Return the student's config before a run changes it."""
    if settings.model is not None:
        return load_config(settings.model)
    return student_config(settings, load_config(settings.source or teacher))


def student_config(settings: StudentSettings, teacher_config: Any) -> Any:
    """Return the teacher's config with the student's sizes."""
    sizes = _shape_sizes(settings.shape, teacher_config) | settings.sizes
    if settings.start == "cut":  # sizes that are not given stay the same
        sizes = own_sizes(teacher_config) | sizes
    missing = {"num_hidden_layers", "hidden_size"} - set(sizes)
    if missing:
        raise RecipeError(
            f"student.{' and student.'.join(sorted(missing))} must be given, or a shape: student.shape="
            f"{next(iter(SHAPES))} (also {', '.join(list(SHAPES)[1:])}, or freely 6l-384d)."
        )
    sizes.setdefault("intermediate_size", 4 * sizes["hidden_size"])
    sizes.setdefault("num_attention_heads", teacher_config.num_attention_heads)
    if sizes["hidden_size"] % sizes["num_attention_heads"]:
        raise RecipeError(
            f"student.hidden_size of {sizes['hidden_size']} must be a multiple of its "
            f"{sizes['num_attention_heads']} heads. Change one, e.g. student.num_attention_heads="
            f"{_near_divisor(sizes['hidden_size'], sizes['num_attention_heads'])}."
        )
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


def _near_divisor(width: int, heads: int) -> int:
    return min((d for d in range(1, width + 1) if width % d == 0), key=lambda d: abs(d - heads))


def _shape_sizes(shape: str | None, teacher_config: Any) -> dict[str, int]:
    if shape is None:
        return {}
    if shape in SHAPES:
        return dict(SHAPES[shape])
    free = _FREE_SHAPE.fullmatch(shape)
    if free is None:
        raise RecipeError(
            f"student.shape must be one of {', '.join(SHAPES)}, or layers and width like 6l-384d; got "
            f"{shape!r}."
        )
    return {
        "num_hidden_layers": int(free[1]),
        "hidden_size": int(free[2]),
        "intermediate_size": 4 * int(free[2]),
        "num_attention_heads": teacher_config.num_attention_heads,
    }


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


def check_start(settings: StudentSettings) -> None:
    """Refuse keys that belong to another way of starting."""
    start = settings.start
    mine = {
        "random": ("shape", "family", *SIZES),
        "general": ("model",),
        "cut": ("shape", "source", "layers", *SIZES),
    }[start]
    given = [
        name
        for name in ("shape", "family", "model", "source", "layers", *SIZES)
        if getattr(settings, name) is not None and name not in mine
    ]
    if given and "model" in (given[0], *mine):
        other = given[0] if given[0] != "model" else f"init={start}"
        raise RecipeError(
            f"student.model and student.{other} exclude each other: a saved model has its shape and its "
            "weights. Leave one out, or start from it with --student whatever the recipe says."
        )
    if given:
        raise RecipeError(
            f"student.{given[0]} has no effect with student.init={start}. Leave it out, or say student.init="
            f"{'cut' if given[0] in ('source', 'layers') else 'random'}."
        )
    if start == "general" and settings.model is None:
        raise RecipeError("student.init=general needs student.model: a folder or a hub name.")


def _check_vocabulary(model: str, teacher: str) -> None:
    """Check that a student has the vocabulary of its teacher."""
    if load_tokenizer(model).get_vocab() != load_tokenizer(teacher).get_vocab():
        raise ModelError(
            f"{model} and the teacher {teacher} must share one tokenizer, and their vocabularies differ. "
            "Start from a shape instead (student.shape), or from a model of this teacher's family."
        )
