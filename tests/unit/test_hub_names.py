from __future__ import annotations

import pytest

from understudy.hub import is_hub_name


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
