"""The recipes shipped with the package, as text, readable without heavy imports."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from understudy.errors import RecipeError
from understudy.kinds.papers import paper_recipes

_FOLDER = resources.files("understudy") / "recipe" / "shipped"


@cache
def shipped_recipes() -> dict[str, str]:
    """Return the name and text of every recipe: files in `shipped/`, and the papers' experiments."""
    files = {
        file.name.removesuffix(".yaml"): file.read_text("utf-8")
        for file in _FOLDER.iterdir()
        if file.name.endswith(".yaml")
    }
    made = paper_recipes(lambda name: yaml.safe_load(files[name]))
    return dict(sorted((files | made).items()))


def read_shipped(name: str) -> str:
    """Return the text of a shipped recipe."""
    shipped = shipped_recipes()
    if name in shipped:
        return shipped[name]
    close = difflib.get_close_matches(name, shipped, n=3)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    if (Path(name) / "recipe.yaml").is_file():
        hint = f" The recipe of that folder is {name}/recipe.yaml."
    raise RecipeError(
        f"recipe {name!r} is neither a shipped recipe nor a file.{hint} `understudy recipes` lists the "
        "shipped ones."
    )
