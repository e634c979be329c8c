from __future__ import annotations

import re
from pathlib import Path

import pytest

from understudy.errors import ModelError
from understudy.hub import check_model_name, is_hub_name


@pytest.mark.parametrize("name", ["ada/reviews", "a/b", "Ada-L/tiny_bert.4l-312d", "ada/_x", "4l/312d"])
def test_names_of_repositories(name: str) -> None:
    assert is_hub_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ada",
        "ada/",
        "/ada",
        "a/b/c",
        "../b",
        "./b",
        "~/b",
        "a/b--c",
        "a/b..c",
        "a/b.git",
        "a/b c",
        "a/b-",
    ],
)
def test_names_of_something_else(name: str) -> None:
    assert not is_hub_name(name)


@pytest.mark.parametrize(
    "name",
    ["bert-base-uncased", "user/m@refs/pr/3", "bert@refs/pr/3", "here/encoder@main", "here"],
)
def test_a_name_that_may_be_on_the_hub_is_let_through(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    check_model_name(name, "the teacher")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./gone", "there is no folder ./gone"),
        ("a/b/c", "there is no folder a/b/c"),
        ("here/encodr", "Did you mean here/encoder"),
        ("here/other", "If it is on the hub, write here/other@main"),
        ("two words", "or a hub name like user/name"),
        ("file.txt", "is a file"),
    ],
)
def test_a_name_that_can_be_nowhere_is_refused(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "encoder").mkdir(parents=True)
    (tmp_path / "file.txt").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=re.escape(message)):
        check_model_name(name, "the teacher")
