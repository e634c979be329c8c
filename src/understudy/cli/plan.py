"""`understudy plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.options import JsonOption, SetOption


def plan_command(
    recipe: Annotated[
        str, typer.Argument(help="Shipped recipe or YAML file, of any stage.", show_default=False)
    ],
    settings: SetOption = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1.0, help="About how long to measure.")] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Estimate what a recipe will cost in time, memory and disk, before it runs.

    `understudy plan tinybert-mrpc --set teacher=teachers/mrpc --set data.source=nyu-mll/glue`

    `understudy plan general-tinybert --set teacher=bert-base-uncased --set general.corpus=corpora/wiki`

    The recipe's own stages run here on a sample for half a minute; the cost on other hardware is computed,
    with the assumptions shown.
    """
    import json

    from understudy.cli.checks import check_early
    from understudy.recipe.inputs import check_planned
    from understudy.recipe.load import load_recipe

    check_early(lambda: load_recipe(recipe, settings or ()))
    check_planned(load_recipe(recipe, settings or ()))

    from understudy.cli.console import people_on_stderr
    from understudy.cli.run_summary import print_plan
    from understudy.stages.plan import plan

    with people_on_stderr():
        content = plan(recipe, settings=settings or (), seconds=seconds).content
        print_plan(content)
    if as_json:
        print(json.dumps(content))
