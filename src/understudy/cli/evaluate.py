"""`understudy evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    DevOption,
    JsonOption,
    LabelOption,
    RecipeOption,
    SetOption,
    TaskOption,
    TextOption,
    TextPairOption,
)


def evaluate_command(
    model: Annotated[
        str, typer.Argument(help="Fine-tuned model (folder or hub name), or artifact.", show_default=False)
    ],
    task: TaskOption = None,
    data: DataOption = None,
    dev: DevOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Another model, compared on the same rows.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split to score; the development sets by default.")
    ] = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1)] = 64,
    output_dir: Annotated[Path | None, typer.Option("--output-dir", help="Folder for result.json.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a model on a task with official metrics and 95 % intervals.

    `understudy evaluate teachers/mrpc`

    A folder written by `finetune`, `distill` or `run` knows its task and data. For a run, the shipped
    artifact is scored; here on other rows:

    `understudy evaluate runs/reviews --dev new.csv`

    For any other model, specify task and data:

    `understudy evaluate MODEL --task mrpc --data nyu-mll/glue --against teachers/mrpc`
    """
    from understudy.cli.checks import check_scoring
    from understudy.recipe.load import file_settings, parse_settings

    overrides = {
        **file_settings(dev=dev, text=text, text_pair=text_pair, label=label),
        **parse_settings(settings or ()),
    }
    given: dict[str, Any] = {"task": task, "data": data, "recipe": recipe, "settings": overrides}
    check_scoring(model, **given, against=against, split=split)

    from understudy.cli.console import people_on_stderr, print_json
    from understudy.cli.summaries import print_scores
    from understudy.stages.evaluate import evaluate

    with people_on_stderr():
        result = evaluate(
            model,
            **given,
            split=split,
            against=against,
            batch_size=batch_size,
            output_dir=output_dir,
        )
        print_scores(result)
    if as_json:
        print_json(result)
