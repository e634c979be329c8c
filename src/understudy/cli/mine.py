"""`understudy mine`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    EngineOption,
    JsonOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    TaskOption,
)


def mine_command(
    output_dir: OutputOption,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Parquet, JSON lines or plain text: files, folders, hub datasets."),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option("--teacher", help="Model fine-tuned on the task: folder or hub name.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            help="Encoder that compares sentences; default: the model that the teacher was fine-tuned from.",
        ),
    ] = None,
    task: TaskOption = None,
    data: DataOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    engine: EngineOption = "local",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes.")] = 1,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find text like a task's in a corpus, to distil on without labels.

    `understudy mine "wiki/*.parquet" --teacher teachers/cola --output-dir mined/cola --workers 8`

    `understudy distill teachers/cola --unlabelled mined/cola/rows --output-dir students/cola`

    Every sentence of the corpus is compared with the training rows, and the closest are kept. Near
    duplicates, and anything close to a development row, are dropped. No class that the teacher predicts gets
    more than its share. For a task of pairs, sentences are paired in several ways: see `mine.pairs`.

    The same text gives the same rows with any number of workers. After an interruption, run the same command
    again to resume.
    """
    from understudy.cli.checks import check_early
    from understudy.distillation.recipes import check_mine, mine_recipe

    given: dict[str, Any] = {"teacher": teacher, "encoder": encoder, "task": task, "data": data}
    given |= {"recipe": recipe, "settings": settings or ()}
    check_early(lambda: mine_recipe(sources, **given), output_dir, may_be_finished=overwrite)
    check_mine(mine_recipe(sources, **given))

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_mined
    from understudy.stages.mine import mine

    with people_on_stderr(), say_how_to_continue("with the files that are missing"):
        result = mine(
            sources,
            **given,
            engine=engine,  # type: ignore[arg-type]  # checked there
            workers=workers,
            output_dir=output_dir,
            overwrite=overwrite,
        )
        print_mined(result)
    if as_json:
        print_json(result)
