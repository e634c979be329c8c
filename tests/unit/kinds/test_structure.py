"""A kind is one folder: nothing outside of `kinds/` compares its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from understudy.errors import RecipeError
from understudy.kinds import get_kind, get_rows, kind_names, register_kind

SOURCE = Path(__file__).parents[3] / "src" / "understudy"


@pytest.mark.parametrize(
    "file", [file for file in SOURCE.rglob("*.py") if "kinds" not in file.parts], ids=lambda file: file.name
)
def test_no_module_outside_of_kinds_names_a_kind(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    docs = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    }
    named = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in kind_names() and node.value not in docs
    ]
    assert named == []


@pytest.mark.parametrize("name", kind_names())
def test_rows_and_learning_are_one_kind(name: str) -> None:
    rows, kind = get_rows(name), get_kind(name)
    assert isinstance(kind, type(rows))
    assert (kind.name, kind.fields, kind.outputs) == (name, rows.fields, rows.outputs)


def test_an_unknown_kind_is_refused_and_a_known_one_not_replaced() -> None:
    with pytest.raises(RecipeError, match=r"one of .*classification.*; got 'poetry'"):
        get_kind("poetry")
    with pytest.raises(RecipeError, match="there is a kind 'classification' already"):
        register_kind(get_kind("classification"))
