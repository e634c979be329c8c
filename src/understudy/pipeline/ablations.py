"""The rows of TinyBERT's ablation Tables 2, 3 and 4, and the orders that they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.errors import RecipeError

FULL = "TinyBERT"


@dataclass(frozen=True)
class AblationRow:
    """A row of an ablation table.

    Attributes:
        settings: the recipe settings that it changes.
        labels: learn from labels instead. `train`: on the training set, after the full run's intermediate
            stage. `all`: on the full run's rows, from its starting point, for as many steps as both of its
            stages.
    """

    name: str
    settings: Mapping[str, Any]
    labels: str | None = None


@dataclass(frozen=True)
class Claim:
    """An order that the paper's table shows: `above` scores at least as high as `below`."""

    above: str
    below: str


@dataclass(frozen=True)
class Ablation:
    """A table of the paper: the variants it compares and the orders it reports."""

    table: str
    title: str
    variants: tuple[AblationRow, ...]
    claims: tuple[Claim, ...]


_SCRATCH = {"student.model": None, "student.fit": None, "student.init": "random"}
_LAYERS_OFF = {"intermediate.weights.attention": 0.0, "intermediate.weights.hidden": 0.0}

ABLATIONS: Mapping[str, Ablation] = {
    "procedures": Ablation(
        "Table 2",
        "Learning procedures",
        (
            AblationRow("w/o GD", _SCRATCH),
            AblationRow("w/o TD", {}, labels="all"),
            AblationRow("w/o DA", {"data.augmented": None}),
        ),
        (
            Claim(FULL, "w/o GD"),
            Claim(FULL, "w/o TD"),
            Claim(FULL, "w/o DA"),
            Claim("w/o GD", "w/o TD"),
            Claim("w/o GD", "w/o DA"),
        ),
    ),
    "objectives": Ablation(
        "Table 3",
        "Distillation objectives",
        (
            AblationRow("w/o Embd", {"intermediate.weights.embeddings": 0.0}),
            AblationRow("w/o Pred", {}, labels="train"),
            AblationRow("w/o Trm", _LAYERS_OFF),
            AblationRow("w/o Attn", {"intermediate.weights.attention": 0.0}),
            AblationRow("w/o Hidn", {"intermediate.weights.hidden": 0.0}),
        ),
        (
            Claim(FULL, "w/o Embd"),
            Claim(FULL, "w/o Pred"),
            Claim(FULL, "w/o Trm"),
            Claim("w/o Embd", "w/o Trm"),
            Claim("w/o Pred", "w/o Trm"),
            Claim("w/o Hidn", "w/o Attn"),
        ),
    ),
    "maps": Ablation(
        "Table 4",
        "Mapping functions",
        (
            AblationRow("Top", {"intermediate.layer_map": "top"}),
            AblationRow("Bottom", {"intermediate.layer_map": "bottom"}),
        ),
        (Claim(FULL, "Top"), Claim(FULL, "Bottom")),
    ),
}


def check_tables(tables: Sequence[str], student: object, augmented: object) -> None:
    """Refuse unknown tables, and `procedures` without a general student and augmented rows."""
    unknown = sorted(set(tables) - set(ABLATIONS))
    if unknown:
        raise RecipeError(f"--table must be of {', '.join(ABLATIONS)}; got {unknown[0]!r}.")
    if "procedures" in tables and (student is None or augmented is None):
        raise RecipeError(
            "the table of procedures leaves out general distillation and augmentation one by one. Give both: "
            "--student students/general/student --augmented augmented"
        )
