"""Layer maps from student to teacher: g(m) of TinyBERT Eq. 6, Patient KD's sets, and the layers of a cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from understudy.errors import RecipeError
from understudy.models.settings import LayerChoice

MapName = Literal["uniform", "top", "bottom", "skip", "last"]


def layer_map(
    kind: MapName | Sequence[int], num_student_layers: int, num_teacher_layers: int
) -> tuple[int, ...]:
    """Return the teacher layers, counted from 1, for student layers 1, 2, …

    Args:
        kind: `uniform` spreads over the whole teacher, g(m) = m·N/M, rounded if M does not divide N; `top`
            takes its last M layers, `bottom` its first (TinyBERT, section 4.5). `skip` and `last` are Patient
            KD's: like uniform and top, but without the last student layer, which learns from the predictions.
            A sequence gives the layers themselves.

    >>> layer_map("uniform", 4, 12)
    (3, 6, 9, 12)
    >>> layer_map("skip", 6, 12)
    (2, 4, 6, 8, 10)
    """
    student, teacher = num_student_layers, num_teacher_layers
    if not isinstance(kind, str):
        return _checked(tuple(kind), student, teacher)
    if kind not in get_args(MapName):
        raise RecipeError(
            f"layer_map must be one of {', '.join(get_args(MapName))} or a list of teacher layers; "
            f"got {kind!r}."
        )
    if not 1 <= student <= teacher:
        raise RecipeError(
            f"layer_map {kind} needs a student of 1 to {teacher} layers, as many as its teacher has; got "
            f"{student}. Give a list of teacher layers, in which one may stand twice."
        )
    # Half a layer is rounded up, in integers: (2·m·N + M) / 2M.
    uniform = tuple((2 * m * teacher + student) // (2 * student) for m in range(1, student + 1))
    top = tuple(range(teacher - student + 1, teacher + 1))
    maps = {
        "uniform": uniform,
        "top": top,
        "bottom": tuple(range(1, student + 1)),
        "skip": uniform[:-1],
        # N − M + 1 … N − 1: the teacher's last layer is left to the predictions too.
        "last": top[:-1],
    }
    if not maps[kind]:
        raise RecipeError(
            f"a {kind} layer_map leaves a student of one layer nothing to learn from: its last layer has the "
            "predictions. Use uniform, or a list of teacher layers."
        )
    return maps[kind]


def _checked(layers: tuple[int, ...], student: int, teacher: int) -> tuple[int, ...]:
    if not 1 <= len(layers) <= student:
        raise RecipeError(
            f"layer_map must name a teacher layer for each of the student's {student} layers, or for its "
            f"first ones; got {len(layers)}: {list(layers)}."
        )
    if any(not 1 <= layer <= teacher for layer in layers):
        raise RecipeError(f"layer_map must name layers from 1 to {teacher}; got {list(layers)}.")
    if list(layers) != sorted(layers):
        raise RecipeError(f"layer_map must not go back; got {list(layers)}, sorted {sorted(layers)}.")
    return layers


def choose_layers(choice: LayerChoice | Sequence[int], num_layers: int, num_source: int) -> tuple[int, ...]:
    """Return the source layers, counted from 1, that become the student's layers 1, 2, …

    >>> choose_layers("first", 3, 12), choose_layers("spaced", 3, 12), choose_layers("last", 3, 12)
    ((1, 2, 3), (4, 8, 12), (10, 11, 12))
    """
    if not isinstance(choice, str):
        layers = tuple(choice)
        if len(layers) != num_layers or any(not 1 <= layer <= num_source for layer in layers):
            raise RecipeError(
                f"student.layers must name one of {num_source} layers for each of the student's "
                f"{num_layers}; got {list(layers)}."
            )
        return layers
    if choice not in get_args(LayerChoice):
        raise RecipeError(
            f"student.layers must be {', '.join(get_args(LayerChoice))} or a list; got {choice!r}."
        )
    if num_layers > num_source:
        raise RecipeError(
            f"a student of {num_layers} layers cannot be cut from a model of {num_source}. Choose fewer "
            "layers (--student), or list them in student.layers, where a layer may be repeated."
        )
    if choice == "first":
        return tuple(range(1, num_layers + 1))
    if choice == "last":
        return tuple(range(num_source - num_layers + 1, num_source + 1))
    # Half a layer is rounded up, as in the uniform layer map.
    return tuple((2 * m * num_source + num_layers) // (2 * num_layers) for m in range(1, num_layers + 1))
