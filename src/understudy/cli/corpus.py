"""`understudy corpus`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli.options import (
    EngineOption,
    JsonOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
)


def corpus_command(
    output_dir: OutputOption,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Parquet, JSON lines or plain text: files, folders, hub datasets."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Tokenizer of the teacher: folder or hub name.")
    ] = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    engine: EngineOption = "local",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes.")] = 1,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Turn general text into token blocks for `understudy general`.

    `understudy corpus wiki/ --tokenizer bert-base-uncased --output-dir corpora/wiki --workers 8`

    Blocks of 128 tokens are filled with whole sentences and never span two documents. Exact duplicates are
    dropped, and some documents are held out. In plain text, empty lines separate documents; in other
    formats, a column contains them:

    `understudy corpus news.jsonl --tokenizer MODEL --set corpus.column=body --output-dir corpora/news`

    The same text gives the same files with any number of workers. After an interruption, run the same command
    again to resume.
    """
    from understudy.cli.checks import check_early
    from understudy.distillation.recipes import corpus_recipe

    given: dict[str, Any] = {"tokenizer": tokenizer, "recipe": recipe, "settings": settings or ()}
    check_early(lambda: corpus_recipe(sources, **given), output_dir, may_be_finished=overwrite)

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_corpus
    from understudy.stages.corpus import corpus

    with people_on_stderr(), say_how_to_continue("with the files that are missing"):
        result = corpus(
            sources,
            **given,
            engine=engine,  # type: ignore[arg-type]  # checked there
            workers=workers,
            output_dir=output_dir,
            overwrite=overwrite,
        )
        print_corpus(result)
    if as_json:
        print_json(result)
