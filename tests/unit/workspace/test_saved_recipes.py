from __future__ import annotations

from pathlib import Path

from understudy.workspace.recipes import evaluation_recipe


def test_other_rows_replace_those_that_it_was_scored_on(tmp_path: Path) -> None:
    """A student trained with --split is scored on its held-out rows, on another file, or on other data."""
    (tmp_path / "recipe.yaml").write_text(
        "task: sst2\ndata: {train: train.csv, dev_share: 0.1, encoding: cp1252}\n", "utf-8"
    )
    nothing: dict[str, None] = {"task": None, "recipe": None}
    own = evaluation_recipe(tmp_path, data=None, settings=(), **nothing)
    assert (own.data.train, own.data.dev_share) == ("train.csv", 0.1)
    other = evaluation_recipe(tmp_path, data=None, settings={"data.dev": "new.csv"}, **nothing)
    assert (other.data.dev, other.data.dev_share, other.data.encoding) == ("new.csv", None, None)
    read_as = {"data.dev": "new.csv", "data.encoding": "utf-16"}
    assert evaluation_recipe(tmp_path, data=None, settings=read_as, **nothing).data.encoding == "utf-16"
    (tmp_path / "recipe.yaml").write_text("task: sst2\ndata: {source: glue}\n", "utf-8")
    instead = evaluation_recipe(tmp_path, data=None, settings={"data.dev": "new.csv"}, **nothing)
    assert (instead.data.source, instead.data.dev) == (None, "new.csv")
    folder = evaluation_recipe(tmp_path, data="glue", settings=(), **nothing)
    assert (folder.data.source, folder.data.dev_share, folder.data.encoding) == ("glue", None, None)
