"""Development sets that a teacher has labelled are recognised wherever their folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.distillation.agreement import AGREEMENT, labels_from
from understudy.recipe.recipe import Recipe


def test_labels_of_the_teacher_are_recognised_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "scratch")
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    for folder in (tmp_path / "cache", tmp_path / "scratch"):
        file = str(folder / AGREEMENT / "made.jsonl")
        assert labels_from(Recipe.from_mapping({"task": "mrpc", "data": {"dev": file}})) == "teacher"
    for file in (str(tmp_path / "dev.csv"), None):
        assert labels_from(Recipe.from_mapping({"task": "mrpc", "data": {"dev": file}})) is None
