"""The settings of a student, without torch: shapes by name, and where its weights come from."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from understudy.errors import ModelError, RecipeError

STUDENT = "student"  # the folder that a distillation saves its model in
DISTILLED = "distilled"  # the folder of a whole run's distillation
SIZES = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
# TinyBERT, section 4.1, and other sizes from the ICLR version.
SHAPES: Mapping[str, Mapping[str, int]] = {
    name: dict(zip(SIZES, sizes, strict=True))
    for name, sizes in {
        "tinybert-4l-312d": (4, 312, 1200, 12),
        "tinybert-4l-768d": (4, 768, 3072, 12),
        "tinybert-6l-312d": (6, 312, 1200, 12),
        "tinybert-6l-768d": (6, 768, 3072, 12),
    }.items()
}
_TARGET = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|MB)", re.IGNORECASE)
_LOSS = re.compile(r"lose\s+(\d+(?:\.\d+)?|\.\d+)\s+points?", re.IGNORECASE)
_FREE_SHAPE = re.compile(r"([1-9]\d*)l-([1-9]\d*)d")

Size = Annotated[int, Field(ge=1)]
LayerChoice = Literal["first", "spaced", "last"]
ProjectionKind = Literal["shared", "per-layer", "none"]


def parse_loss(text: str) -> float | None:
    """Parse a target given in lost points; None if it is a time or a size.

    >>> parse_loss("lose 1.5 points"), parse_loss("2ms")
    (1.5, None)
    """
    match = _LOSS.fullmatch(text.strip())
    return float(match[1]) if match else None


@dataclass(frozen=True)
class Target:
    """Limits for a student's cost: milliseconds for one text in int8 here, and megabytes of its file."""

    milliseconds: float | None = None
    megabytes: float | None = None

    def __str__(self) -> str:
        parts = {"ms": self.milliseconds, "MB": self.megabytes}
        return ", ".join(f"{value:g}{unit}" for unit, value in parts.items() if value is not None)


def parse_target(text: str) -> Target:
    """Parse a target: a time, a size, or both.

    >>> parse_target("2ms, 12MB")
    Target(milliseconds=2.0, megabytes=12.0)
    """
    if parse_loss(text) is not None:
        raise RecipeError(
            f'the target "{text}" needs several students, which run trains: understudy run … --target '
            f'"{text}". A single student can have a time, a size or both, e.g. "2ms, 12MB".'
        )
    found: dict[str, float] = {}
    for part in text.split(","):
        match = _TARGET.fullmatch(part.strip())
        name = {"ms": "milliseconds", "mb": "megabytes"}[match[2].lower()] if match else None
        if match is None or name is None or name in found or not float(match[1]):
            raise RecipeError(
                f'a target must be a time, a size or both, e.g. "2ms, 12MB"; or, with run, points that may '
                f'be lost, e.g. "lose 1 point"; got {text!r}.'
            )
        found[name] = float(match[1])
    return Target(**found)


class VocabularySettings(BaseModel):
    """The `student.vocabulary:` block of a recipe: keep the tokens of the texts, and all characters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_count: Size = 1
    """Keep tokens that occur this many times in the rows to learn from, and in the corpus."""
    size: Size | None = None
    """Keep this many tokens at most, the most frequent ones."""
    corpus: list[str] = []
    """Files of more texts whose tokens are counted, in the formats of `data.unlabelled`."""


class StudentSettings(BaseModel):
    """The `student:` block of a recipe: a shape, or a saved student to train further."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: str | None = None
    """A name (`tinybert-4l-312d`), or layers and width (`6l-384d`: feed-forward part four times as wide,
    or the teacher's if that is narrower and the student is cut; as many heads as the teacher)."""
    target: str | None = None
    """Limits for the student's cost, e.g. `2ms, 12MB`: the largest shape that meets them here is chosen."""
    init: Literal["random", "general", "cut"] | None = None
    """`random` draws the weights, `general` starts from `model`, `cut` takes them from the teacher. Defaults
    to `general` with a model and `random` without."""
    model: str | None = None
    """A saved encoder to start from, e.g. a general student: a folder or a hub name."""
    source: str | None = None
    """The model that a student is cut from, e.g. the pretrained model. Defaults to the teacher."""
    layers: LayerChoice | list[int] | None = None
    """The source layers that a cut keeps: `first`, `spaced`, `last` or a list. Defaults to `spaced`."""
    fit: bool | None = None
    """Whether the linear layers of a cut student are fitted to its source by least squares on a sample of the
    rows, and those of a general student that was cut, to the task's teacher. Defaults to yes."""
    family: str | None = None
    """`bert`, or None for the teacher's own family."""
    num_hidden_layers: Size | None = None
    hidden_size: Size | None = None
    intermediate_size: Size | None = None
    num_attention_heads: Size | None = None
    vocabulary: VocabularySettings | None = None
    """Which of the teacher's tokens the student keeps. Defaults to all."""

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
    # A name that looks like a shape is a misspelt shape, and is refused as such.
    is_shape = re.match(r"\d+l|tinybert-", name) or ("/" not in name and close_shapes(name))
    return {"shape": name} if is_shape else {"model": name}


def split_students(option: str | None) -> dict[str, str | None]:
    """Return the students of `--student A,B` by name; one student, or none, has no name.

    >>> split_students("6l-384d,4l-312d")
    {'6l-384d': '6l-384d', '4l-312d': '4l-312d'}
    >>> split_students("6l-384d")
    {'': '6l-384d'}
    """
    if option is None or "," not in option or Path(option).expanduser().exists():
        return {"": option}
    return dict(name_students([student.strip() for student in option.split(",")]))


def name_students(students: Sequence[str]) -> dict[str, str]:
    """Name each of several students by its shape or folder.

    >>> name_students(["6l-384d", "students/general"])
    {'6l-384d': '6l-384d', 'general': 'students/general'}
    """
    if not students:
        raise RecipeError("students must be given, e.g. 6l-384d,4l-312d.")
    names = [folder_name(student) for student in students]
    odd = next((name for name in names if name in _NO_NAMES), None)
    if odd is not None:
        raise RecipeError(
            f"--student: each of several students gets a folder of its name, which cannot be {odd!r}. Give "
            "shapes or folders with commas between them, e.g. 6l-384d,4l-312d."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RecipeError(
            f"--student: two students are called {twice!r}, and each gets a folder of its name. Give each "
            "once, or rename a folder."
        )
    return dict(zip(names, students, strict=True))


def folder_name(model: str) -> str:
    """Return the last part of a path that identifies the model.

    >>> folder_name("runs/sst2/distilled/student")
    'sst2'
    """
    parts = [part for part in Path(model).parts if part not in (STUDENT, DISTILLED)]
    return parts[-1] if parts else ""


_NO_NAMES = ("", ".", "..", "/", "teacher")  # the last is the teacher's folder in a run


def refuse_one_shape(settings: Mapping[str, Any]) -> None:
    """Refuse settings that would make several students the same."""
    for name in ("shape", "target", "model", *SIZES):
        if settings.get(f"student.{name}") is not None:
            raise RecipeError(
                f"student.{name} is one student's, and there are several. Leave it out, and give the shapes "
                "with --student, e.g. 6l-384d,4l-312d."
            )


def student_inside(model: str | Path) -> str | Path:
    """Return the student inside a distillation's or a whole run's folder; other models unchanged."""
    folder = Path(model).expanduser()
    for student in (folder / STUDENT, folder / DISTILLED / STUDENT):
        if (student / "config.json").is_file():
            return student
    return model


def teacher_inside(model: str | Path) -> str | Path:
    """Return the student inside a distillation's folder; other teachers unchanged."""
    check_teacher(model)
    return student_inside(model)


def check_teacher(model: str | Path) -> None:
    """Refuse a whole run as a teacher, because it has two models or more, and an exported model."""
    folder = Path(model).expanduser()
    if (folder / "artifact.json").is_file():
        raise ModelError(
            f"{folder} is an exported model, which cannot be trained or learnt from. Pass the model that it "
            "was exported from."
        )
    # A run of several students has a folder for each of them, and a result next to these.
    runs = [folder, *(folder.glob("*/") if (folder / "result.json").is_file() else ())]
    students = [run for run in runs if (run / DISTILLED / STUDENT).is_dir()]
    if students:
        own, recipe = folder / "teacher", students[0] / "recipe.yaml"
        teacher = f"Its teacher is {own}" if own.is_dir() else f"Its teacher is named in {recipe}"
        raise ModelError(
            f"{folder} is a whole run. {teacher}, its student {students[0] / DISTILLED}: pass the one to "
            "learn from."
        )


def student_settings(name: str) -> dict[str, Any]:
    """Return the settings for `--student NAME`: the shape, or the whole block for a saved model."""
    start = parse_student(name)
    if "shape" not in start:
        return {"student": start}
    return {"student.model": None, "student.shape": start["shape"]}


def override_sizes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which a given shape or target replaces the recipe's sizes."""
    replaced: list[str] = []
    if settings.get("student.shape") is not None and settings.get("student.target") is not None:
        raise RecipeError(
            "a shape and a target exclude each other: the target makes the shape. Leave one out."
        )
    if "student.shape" in settings or "student.target" in settings:
        replaced = [f"student.{name}" for name in ("shape", "target", *SIZES)]
    return {**dict.fromkeys(replaced), **settings}


def parse_shape(shape: str) -> dict[str, int]:
    """Return the sizes of a shape; a free one (`6l-384d`) has as many heads as its teacher.

    >>> parse_shape("6l-384d")
    {'num_hidden_layers': 6, 'hidden_size': 384, 'intermediate_size': 1536}
    """
    if shape in SHAPES:
        return dict(SHAPES[shape])
    free = _FREE_SHAPE.fullmatch(shape)
    if free is None:
        raise RecipeError(
            f"student.shape must be one of {', '.join(SHAPES)}, or layers and width like 6l-384d; got "
            f"{shape!r}.{_hint(shape)}"
        )
    layers, width = int(free[1]), int(free[2])
    return {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 4 * width}


def close_shapes(name: str) -> list[str]:
    """Return the shapes that a misspelt name may refer to, most likely first.

    >>> close_shapes("tinybert4-312d")
    ['tinybert-4l-312d', 'tinybert-6l-312d']
    >>> close_shapes("4x312")
    ['4l-312d']
    """
    numbers = re.fullmatch(r"(\d+)\D+(\d+)\D*", name)
    if numbers and _FREE_SHAPE.fullmatch(shape := f"{numbers[1]}l-{numbers[2]}d"):
        return [shape]
    inside = [shape for shape in SHAPES if name.lower() in shape][:2]
    return inside or difflib.get_close_matches(name.lower(), SHAPES, n=2, cutoff=0.7)


def _hint(name: str) -> str:
    close = close_shapes(name)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def check_width(width: int, heads: int) -> None:
    """Refuse a width that cannot be divided among the heads."""
    if width % heads == 0:
        return
    near_multiple = max(1, round(width / heads)) * heads
    near_divisor = min((d for d in range(1, width + 1) if width % d == 0), key=lambda d: abs(d - heads))
    raise RecipeError(
        f"student.hidden_size of {width} must be a multiple of its {heads} heads. Use a width of "
        f"{near_multiple}, or --set student.num_attention_heads={near_divisor}."
    )


def check_narrower(what: str, size: int, source_size: int) -> None:
    """Refuse a cut that is larger than what it is cut from."""
    if size > source_size:
        raise RecipeError(
            f"a cut can only be narrower than its source: the student's {what} is {size}, the source's "
            f"{source_size}. Choose a narrower student (--student), or use student.init=random."
        )


def check_projection(
    projection: str, student_size: int, teacher_size: int, *, key: str = "projection"
) -> None:
    """Refuse to compare states of different widths without a matrix between them.

    Args:
        key: the setting's key in a recipe, for the message.
    """
    if projection == "none" and student_size != teacher_size:
        raise RecipeError(
            f"{key} is none, and the student's width of {student_size} is not its teacher's {teacher_size}. "
            f"Put a learnt matrix between them: --set {key}=shared, or per-layer."
        )


def check_start(settings: StudentSettings) -> None:
    """Refuse keys that do not apply to the way the student starts."""
    start = settings.start
    if settings.target is not None:
        parse_target(settings.target)
        # A shape next to a target is the one that was chosen for it.
        others = [name for name in ("model", *SIZES) if getattr(settings, name) is not None]
        if others:
            raise RecipeError(
                f"student.target and student.{others[0]} exclude each other: the target makes the shape. "
                "Leave one out."
            )
    mine = {
        "random": ("shape", "family", *SIZES),
        "general": ("model", "fit"),
        "cut": ("shape", "source", "layers", "fit", *SIZES),
    }[start]
    given = [
        name
        for name in ("shape", "family", "model", "source", "layers", "fit", *SIZES)
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
            f"{'cut' if given[0] in ('source', 'layers', 'fit') else 'random'}."
        )
    if start == "general" and settings.model is None:
        raise RecipeError("student.init=general needs student.model: a folder or a hub name.")
