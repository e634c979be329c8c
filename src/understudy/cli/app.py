"""The `understudy COMMAND` entry point. Heavy packages are imported only when a command runs."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from understudy.cli.ablate import ablate_command
from understudy.cli.augment import augment_command
from understudy.cli.bench import bench_command
from understudy.cli.corpus import corpus_command
from understudy.cli.distill import distill_command
from understudy.cli.evaluate import evaluate_command
from understudy.cli.export import export_command
from understudy.cli.finetune import finetune_command
from understudy.cli.general import general_command
from understudy.cli.mine import mine_command
from understudy.cli.plan import plan_command
from understudy.cli.predict import predict_command
from understudy.cli.push import push_command
from understudy.cli.recipes import recipes_command
from understudy.cli.run import run_command
from understudy.cli.serve import serve_command
from understudy.cli.web import web_command
from understudy.errors import MissingExtraError, UnderstudyError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run_command)
app.command("finetune")(finetune_command)
app.command("corpus")(corpus_command)
app.command("general")(general_command)
app.command("augment")(augment_command)
app.command("mine")(mine_command)
app.command("distill")(distill_command)
app.command("evaluate")(evaluate_command)
app.command("export")(export_command)
app.command("predict")(predict_command)
app.command("serve")(serve_command)
app.command("web")(web_command)
app.command("push")(push_command)
app.command("bench")(bench_command)
app.command("ablate")(ablate_command)
app.command("plan")(plan_command)
app.command("recipes")(recipes_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from understudy import __version__

        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def understudy_command(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Distil a large encoder into a small one.

    `understudy run bert-base-uncased --train reviews.csv --split 0.1 --output-dir runs/reviews`

    `understudy predict runs/reviews/artifact "a fine film"`

    A published task:

    `understudy run bert-base-uncased --recipe desk-sst2 --data nyu-mll/glue --output-dir runs/sst2`

    Or step by step:

    `understudy finetune bert-base-uncased --task mrpc --data nyu-mll/glue --output-dir teachers/mrpc`

    `understudy distill teachers/mrpc --student tinybert-4l-312d --output-dir students/mrpc`

    `understudy export students/mrpc --output-dir artifacts/mrpc`

    Every command's help begins with an example: `understudy COMMAND --help`
    """


def main() -> None:
    """Run the command line; print user errors as messages, without a traceback."""
    from understudy.cli.console import print_error

    # As Ctrl-C does: temporary folders and locks are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except UnderstudyError as error:
        print_error(error)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("understudy"):
            raise
        print_error(MissingExtraError.of(error))
        sys.exit(2)
