"""A recipe that was damaged in its folder: refused with what to do, and not by a parser's own error."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.errors import OutputError
from understudy.recipe.load import load_recipe
from understudy.workspace.folders import check_output


def test_a_half_written_one_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml.123-0a.writing").write_text("task:", "utf-8")
    check_output(tmp_path, load_recipe("finetune-mrpc"), overwrite=False)
    (tmp_path / "mine.txt").write_text("not yours", "utf-8")
    with pytest.raises(OutputError, match="did not write it"):
        check_output(tmp_path, load_recipe("finetune-mrpc"), overwrite=False)


@pytest.mark.parametrize("damage", [b"\x00", b"task: [\n", b"\xff\xfe", b"word\n", b""])
def test_it_is_refused_by_name(damage: bytes, tmp_path: Path) -> None:
    recipe = load_recipe("finetune-mrpc")
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), "utf-8")
    check_output(tmp_path, recipe, overwrite=False)  # its own is continued
    (tmp_path / "recipe.yaml").write_bytes(damage)
    with pytest.raises(OutputError, match=r"recipe\.yaml"):
        check_output(tmp_path, recipe, overwrite=False)
