"""`understudy recipes`."""

from __future__ import annotations

from typing import Annotated

import typer

# The command in a recipe's header, and the title above such recipes.
_GROUPS = {
    "run": "Whole runs: understudy run --recipe NAME",
    "ablate": "Ablations: understudy ablate --recipe NAME",
    "finetune": "Teachers: understudy finetune",
    "distill": "Students: understudy distill",
    "augment": "More rows: understudy augment",
    "mine": "Rows without labels: understudy mine",
    "corpus": "General text: understudy corpus",
    "general": "General students: understudy general",
}


def recipes_command(
    name: Annotated[str | None, typer.Argument(help="Show this one.", show_default=False)] = None,
) -> None:
    """List the shipped recipes, or show one.

    `understudy recipes finetune-mrpc > mine.yaml`
    """
    from understudy.kinds.papers import EXPERIMENTS
    from understudy.recipe.library import read_shipped, shipped_recipes

    if name is not None:
        typer.echo(read_shipped(name), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    shipped, console = shipped_recipes(), Console(highlight=False)
    papers = {
        recipe for recipe in shipped if recipe.rpartition("-")[2] in EXPERIMENTS and "desk" not in recipe
    }
    for verb, title in _GROUPS.items():
        table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
        table.add_column(no_wrap=True, min_width=max(map(len, shipped)))
        table.add_column()
        for recipe in sorted(set(shipped) - papers):
            header = shipped[recipe].splitlines()
            if any(f"understudy {verb} " in line for line in header):
                table.add_row(recipe, header[0].removeprefix("# "))
                if header[1].startswith("# Measured"):
                    table.add_row("", f"[dim]{header[1].removeprefix('# ')}[/]")
        console.print(table, "")
    console.print("The papers' settings by task, not run here", style="bold")
    for prefix in sorted({recipe.rpartition("-")[0] for recipe in papers}):
        tasks = [task for task in EXPERIMENTS if f"{prefix}-{task}" in papers]
        first = shipped[f"{prefix}-{tasks[0]}"]
        verb = next(verb for verb in _GROUPS if f"understudy {verb} " in first)
        console.print(f"{prefix}-TASK (understudy {verb}): {', '.join(tasks)}", soft_wrap=True)
