"""`understudy recipes`."""

from __future__ import annotations

from typing import Annotated

import typer

# What a recipe's header says it is for, and what people read above them.
_GROUPS = {
    "run": "Whole runs: understudy run --recipe NAME",
    "ablate": "Ablations: understudy ablate --recipe NAME",
    "finetune": "Teachers: understudy finetune",
    "distill": "Students: understudy distill",
    "augment": "More rows: understudy augment",
    "corpus": "General text: understudy corpus",
    "general": "General students: understudy general",
}


def recipes_command(
    name: Annotated[str | None, typer.Argument(help="Show this one.", show_default=False)] = None,
) -> None:
    """List the shipped recipes, or show one.

    `understudy recipes finetune-mrpc > mine.yaml`
    """
    from understudy.recipe.library import read_shipped, shipped_recipes

    if name is not None:
        typer.echo(read_shipped(name), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    shipped = shipped_recipes()
    for verb, title in _GROUPS.items():
        table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
        table.add_column(no_wrap=True, min_width=max(map(len, shipped)))
        table.add_column()
        # The papers' are many and come last.
        for recipe, text in sorted(shipped.items(), key=lambda one: one[0].startswith(("tinybert", "pkd"))):
            if f"understudy {verb} " in text:
                table.add_row(recipe, text.splitlines()[0].removeprefix("# "))
        Console().print(table, "")
