"""`understudy push`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import JsonOption


def push_command(
    folder: Annotated[Path, typer.Argument(help="Artifact or student.", show_default=False)],
    repo: Annotated[str, typer.Argument(help="Repository: user/name.", show_default=False)],
    private: Annotated[
        bool, typer.Option("--private", metavar="", help="Create a private repository.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="BRANCH", help="Branch; main by default.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", help="Message of the commit.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Upload an artifact or a student to the Hugging Face hub.

    `understudy push runs/reviews/artifact ada/reviews-4l --private`

    `understudy predict ada/reviews-4l "a fine film"`

    The model, its tokenizer, their configuration and the model card are uploaded; recipes, results and
    checkpoints are not. It needs a token with write access: `hf auth login`, or HF_TOKEN. A student of
    `distill` is pushed in the same way: `understudy push students/mrpc ada/mrpc-4l`.
    """
    from understudy.cli.summaries import print_pushed
    from understudy.stages.push import push

    result = push(folder, repo, private=private, revision=revision, message=message)
    print_pushed(result)
    if as_json:
        print(json.dumps(asdict(result), ensure_ascii=False))
