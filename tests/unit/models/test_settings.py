"""Which folder may be a teacher."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.errors import ModelError
from understudy.models.settings import check_teacher


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("6l-384d", "4l-312d"):
        (tmp_path / name / "distilled" / "student").mkdir(parents=True)
    return tmp_path


def test_a_whole_run_is_no_teacher(runs: Path) -> None:
    with pytest.raises(ModelError, match=r"Its teacher is named in .*4l-312d/recipe\.yaml, its student"):
        check_teacher(runs / "4l-312d")
    check_teacher(runs / "4l-312d" / "distilled")
    check_teacher("user/name")


def test_a_run_of_several_students_is_none_but_any_folder_of_runs_is_no_run(runs: Path) -> None:
    check_teacher(runs)
    (runs / "teacher").mkdir()
    (runs / "result.json").write_text("{}")
    with pytest.raises(ModelError, match=f"{runs} is a whole run. Its teacher is {runs / 'teacher'}, its"):
        check_teacher(runs)


def test_an_exported_model_is_no_teacher(tmp_path: Path) -> None:
    (tmp_path / "artifact.json").write_text("{}")
    with pytest.raises(ModelError, match="is an exported model, which cannot be trained or learnt from"):
        check_teacher(tmp_path)
