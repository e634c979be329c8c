"""Every equation of the page has its function, and the function cites it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "equations.md").read_text("utf-8")
ROWS = re.findall(
    r"^\| (TinyBERT Eq\. \d+|TinyBERT Algorithm 1|Patient KD|MarginMSE) \| [^|]+ \| `([\w.]+)` \|$",
    PAGE,
    flags=re.MULTILINE,
)


def test_the_page_has_rows() -> None:
    assert len(ROWS) == PAGE.count("| `understudy.")


@pytest.mark.parametrize(("paper", "target"), ROWS)
def test_the_function_cites_its_equation(paper: str, target: str) -> None:
    module, name = target.rsplit(".", 1)
    function = getattr(import_module(module), name)
    documented = f"{import_module(module).__doc__}\n{function.__doc__}"
    assert paper in documented
