"""The recipes that come with the package, as text: reading them needs nothing heavy."""

from __future__ import annotations

import difflib
from importlib import resources

from understudy.errors import RecipeError

_FOLDER = resources.files("understudy") / "recipe" / "shipped"


def shipped_recipes() -> dict[str, str]:
    """Name and text of every shipped recipe."""
    files = sorted(_FOLDER.iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".yaml"): file.read_text("utf-8")
        for file in files
        if file.name.endswith(".yaml")
    }


def read_shipped(name: str) -> str:
    """The text of one of them."""
    shipped = shipped_recipes()
    if name in shipped:
        return shipped[name]
    close = difflib.get_close_matches(name, shipped, n=3)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    raise RecipeError(
        f"recipe {name!r} is neither a shipped recipe nor a file.{hint} `understudy recipes` lists the "
        "shipped ones."
    )
