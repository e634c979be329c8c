"""Layer maps from student to teacher: g(m) of TinyBERT Eq. 6, and Patient KD's sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from understudy.errors import RecipeError

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
