"""`understudy finetune`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    DevOption,
    JsonOption,
    LabelOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    SplitOption,
    TaskOption,
    TextOption,
    TextPairOption,
    TrainOption,
)


def finetune_command(
    output_dir: OutputOption,
    model: Annotated[
        str | None, typer.Argument(help="Encoder to start from: folder or hub name.", show_default=False)
    ] = None,
    task: TaskOption = None,
    data: DataOption = None,
    train: TrainOption = None,
    dev: DevOption = None,
    split: SplitOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a teacher on a task.

    `understudy finetune bert-base-uncased --task mrpc --data nyu-mll/glue --output-dir teachers/mrpc`

    Your own files, with columns guessed or named:

    `understudy finetune bert-base-uncased --train train.csv --dev dev.csv --text review --label stars
    --output-dir teacher`

    The result loads with plain transformers. After an interruption, run the same command again to resume.
    """
    from understudy.cli.checks import check_early, check_rows_early
    from understudy.distillation.recipes import finetune_recipe
    from understudy.recipe.inputs import check_planned
    from understudy.recipe.load import file_settings, parse_settings

    overrides = {
        **file_settings(train=train, dev=dev, split=split, text=text, text_pair=text_pair, label=label),
        **parse_settings(settings or ()),
    }
    given: dict[str, Any] = {"task": task, "data": data, "recipe": recipe, "settings": overrides}
    built = check_early(lambda: finetune_recipe(model, **given), output_dir, may_be_finished=overwrite)
    check_planned(built)
    check_rows_early(built, built.model, keeps_head=False)

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_scores
    from understudy.stages.finetune import finetune

    with people_on_stderr(), say_how_to_continue():
        result = finetune(model, output_dir=output_dir, overwrite=overwrite, **given)
        print_scores(result)
    if as_json:
        print_json(result)
