"""`understudy recipes`."""

from __future__ import annotations

from typing import Annotated

import typer


def recipes_command(
    name: Annotated[str | None, typer.Argument(help="Show this one.", show_default=False)] = None,
) -> None:
    """List the shipped recipes, or show one.

    `understudy recipes finetune-mrpc > mine.yaml`
    """
    from understudy.recipe.shelf import read_shipped, shipped_recipes

    if name is not None:
        typer.echo(read_shipped(name), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("recipe", no_wrap=True)
    table.add_column("what it is")
    for recipe, text in shipped_recipes().items():
        table.add_row(recipe, text.splitlines()[0].removeprefix("# "))
    Console().print(table)
