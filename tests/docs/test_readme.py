"""What README and docs claim: commands that run, figures that were measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import commands, run_code, run_command, run_settings, stand_ins, write_data

import understudy
from understudy.kinds.tasks import task_names
from understudy.recipe.library import shipped_recipes

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_commands_run(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In README's order, in one empty folder, with a tiny model and tiny data in the place of real ones."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    names = stand_ins(tmp_path, encoder)
    found = commands(README)
    assert len(found) >= 5
    for arguments in found:
        run_command(arguments, names)
    # The run is finished: tiny settings must say the same as the command's.
    whole = understudy.run

    def tiny_run(*arguments: object, **options: object) -> object:
        return whole(*arguments, settings=run_settings(str(options["recipe"])), **options)

    monkeypatch.setattr(understudy, "run", tiny_run)
    assert run_code(README, names) == 1


def test_the_tables_say_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from tables import PAGES, with_tables

    for name in PAGES:
        text = (ROOT / name).read_text("utf-8")
        assert with_tables(text) == text
    log, results = ((ROOT / "docs" / name).read_text("utf-8") for name in ("LOG.md", "results.md"))
    marks = ("starts", "held-out", "patient", "augmented", "augment-rows", "augment-examples")
    for mark in (*marks, "general", "general-pairs", "deploy"):
        assert f"<!-- {mark} -->\n| task |" in log
    for mark in ("teachers", "students", "starts", "general", "desk-seeds"):
        assert f"<!-- {mark} -->\n| task |" in results
    assert "<!-- desk -->\n| | SST-2, accuracy |" in results
    for mark in ("desk-wiki", "desk-minilm", "desk-fitted", "desk-six"):
        assert f"<!-- {mark} -->\n| | SST-2, accuracy |" in results
    for mark in ("desk-wiki", "desk-minilm"):
        assert f"<!-- {mark} -->\n| | SST-2, accuracy |" in README


def test_the_tree_names_what_is_there() -> None:
    tree = README.split("## Repository layout")[1].split("```text\n")[1].split("```")[0]
    named = {line.split()[0] for line in tree.splitlines() if line.startswith("  ")}
    folders = {f"{path.name}/" for path in (ROOT / "src" / "understudy").iterdir() if path.is_dir()}
    assert named >= folders - {"__pycache__/"}


def test_the_page_on_data_names_every_task_and_every_recipe_exists() -> None:
    page = (ROOT / "docs" / "reference" / "data.md").read_text("utf-8")
    assert all(f"`{task}`" in page for task in task_names())
    for name in re.findall(r"`((?:desk-)?(?:finetune|tinybert)-[a-z0-9-]+)`", README):
        assert name in shipped_recipes()
