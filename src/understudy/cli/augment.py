"""`understudy augment`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    EngineOption,
    JsonOption,
    LabelOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    TaskOption,
    TextOption,
    TextPairOption,
    TrainOption,
)


def augment_command(
    output_dir: OutputOption,
    model: Annotated[
        str | None, typer.Argument(help="Masked language model: folder or hub name.", show_default=False)
    ] = None,
    task: TaskOption = None,
    data: DataOption = None,
    train: TrainOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    engine: EngineOption = "local",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes of --engine ray.")] = 1,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Generate variants of every training row by replacing words.

    `understudy augment bert-base-uncased --task mrpc --data nyu-mll/glue --output-dir augmented/mrpc`

    Your own file: `--train reviews.csv --text review --label stars` in place of `--task` and `--data`.

    Words of several tokens are replaced by their neighbours in word vectors, if you have some:

    `understudy augment … --set augment.vectors=glove.6B.300d.txt`

    `distill` learns from the result with `--set data.augmented=augmented/mrpc`. After an interruption, run
    the same command again to resume.
    """
    from understudy.cli.checks import check_early
    from understudy.distillation.recipes import augment_recipe
    from understudy.recipe.inputs import check_augments
    from understudy.recipe.load import file_settings, parse_settings

    overrides = {
        **file_settings(train=train, text=text, text_pair=text_pair, label=label),
        **parse_settings(settings or ()),
    }
    given: dict[str, Any] = {"task": task, "data": data, "recipe": recipe, "settings": overrides}
    check_augments(check_early(lambda: augment_recipe(model, **given), output_dir, may_be_finished=overwrite))

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_augmented
    from understudy.stages.augment import augment

    with people_on_stderr(), say_how_to_continue("with the files that are missing"):
        result = augment(
            model,
            **given,
            engine=engine,  # type: ignore[arg-type]  # checked there
            workers=workers,
            output_dir=output_dir,
            overwrite=overwrite,
        )
        print_augmented(result)
    if as_json:
        print_json(result)
