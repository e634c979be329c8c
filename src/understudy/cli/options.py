"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task", help="A task (sst2, mrpc, squad …), or a kind for your own files (classification …)."
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="Folder in the task's layout (GLUE's, SQuAD's …), or a hub dataset."),
]
TrainOption = Annotated[
    str | None,
    typer.Option("--train", help="Your training rows: CSV, TSV, JSONL, Parquet, SQuAD JSON or CoNLL."),
]
DevOption = Annotated[str | None, typer.Option("--dev", help="Your rows for scoring.")]


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise typer.BadParameter(f"{text} is not between 0 and 1. For a tenth of the rows: 0.1.")
    return share


SplitOption = Annotated[
    float | None,
    typer.Option(
        "--split",
        parser=_parse_share,
        metavar="SHARE",
        help="Instead of --dev: the share of --train to hold out, e.g. 0.1.",
    ),
]
TextOption = Annotated[
    str | None, typer.Option("--text", help="Column with the text. Guessed from its name if left out.")
]
TextPairOption = Annotated[str | None, typer.Option("--text-pair", help="Column with the second text.")]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column with the label.")]
RecipeOption = Annotated[
    str | None, typer.Option("--recipe", help="Shipped recipe or YAML file; see `understudy recipes`.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe; may be repeated."),
]
EngineOption = Annotated[str, typer.Option("--engine", help="local, or ray for many machines.")]
JsonOption = Annotated[
    bool, typer.Option("--json", metavar="", help="Print the result as JSON on standard output.")
]
OutputOption = Annotated[Path, typer.Option("--output-dir", help="Folder for everything the command writes.")]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        help='What the student may cost here, instead of a shape: "2ms", "12MB", or both. With run also '
        'what it may lose: "lose 1 point".',
        show_default=False,
    ),
]
UnlabelledOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unlabelled",
        help="Rows without labels: a file, folder or pattern. May be repeated.",
        show_default=False,
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", metavar="", help="Replace what is in --output-dir.")
]
