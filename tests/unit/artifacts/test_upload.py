from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.artifacts.upload import Content, refuse_local_paths
from understudy.errors import OutputError


def content(folder: Path, card: str = "# Card", **values: Any) -> Content:
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text(json.dumps(values if name == "config.json" else {"vocab": ["/a/b/c"]}))
    files = {name: folder / name for name in ("config.json", "tokenizer.json")}
    return Content("student", card, files)


@pytest.mark.parametrize("value", ["/home/ada/model", "~/model", "C:\\Users\\ada", "/mnt/x"])
def test_a_path_of_this_machine_is_refused(value: str, tmp_path: Path) -> None:
    made = content(tmp_path, model_type="bert", more={"list": [{"_name_or_path": value}]})
    with pytest.raises(OutputError) as error:
        refuse_local_paths(made)
    assert f"config.json has a path of this machine, which should not be uploaded: {value}" in str(
        error.value
    )


def test_the_home_folder_in_a_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"README\.md has a path of this machine"):
        refuse_local_paths(content(tmp_path, card=f"made in {Path.home()}/runs"))


@pytest.mark.parametrize(
    "value", ["ada/model", "and/or", "/", "1/2", "https://example.org/a", "a: b", "B-LOC"]
)
def test_other_strings_are_not_paths(value: str, tmp_path: Path) -> None:
    refuse_local_paths(content(tmp_path, card="run /usr/bin/env", value=value, number=1))
