from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from understudy.errors import ModelError, OutputError
from understudy.recipe.load import apply_settings
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.workspace.folders import check_output, refuse_finished
from understudy.workspace.hashes import hash_model

RECIPE = Recipe.from_mapping({"task": "mrpc"})


def test_a_new_folder_is_fine_and_not_made_yet(tmp_path: Path) -> None:
    check_output(tmp_path / "a" / "b", RECIPE, overwrite=False)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"result.json": "{}"}, "holds a finished run"),
        ({"recipe.yaml": "task: rte\n"}, "another recipe"),
    ],
)
def test_what_is_there_is_not_lost(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(OutputError, match=message) as error:
        check_output(tmp_path, RECIPE, overwrite=False)
    assert "--overwrite" in str(error.value)
    check_output(tmp_path, RECIPE, overwrite=True)


def test_leftovers_of_a_finished_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    left = ["documents/part.npy.sha256", "teacher/training/checkpoint-5/model.bin", "row.writing"]
    for name in left:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    refuse_finished(tmp_path)  # not yet: the command removes the files first
    with pytest.raises(OutputError, match="holds a finished run"):
        check_output(tmp_path, RECIPE, overwrite=False)
    assert not any((tmp_path / name).exists() for name in [*left, "documents"])
    with pytest.raises(OutputError, match="holds a finished run"):
        refuse_finished(tmp_path)


def test_an_unfinished_run_of_the_same_recipe_goes_on(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.to_yaml())
    check_output(tmp_path, RECIPE, overwrite=False)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        check_output(tmp_path / "a", RECIPE, overwrite=True)


def test_paths_become_absolute_and_hub_names_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glue").mkdir()
    recipe = Recipe.from_mapping({"task": "mrpc", "model": "bert-base-uncased", "data": {"source": "glue"}})
    resolved = resolve_paths(recipe)
    assert resolved.data.source == str(tmp_path / "glue")
    assert resolved.model == "bert-base-uncased"


def test_hub_models_are_told_apart_by_name_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hub can be reached here: only where its files lie in the cache is made up."""

    def cached(model: str, _file: str, revision: str | None) -> str:
        assert revision in (None, "v1")
        commit = {"org/a": "a" * 40, "org/b": "b" * 40}.get(model)
        place = f"models--{model.replace('/', '--')}/snapshots/{commit}" if commit else "elsewhere"
        return str(tmp_path / place / "config.json")

    monkeypatch.setattr("understudy.workspace.hashes.cached_file", cached)
    assert hash_model("org/a") == f"org/a@{'a' * 40}"
    assert hash_model("org/b") != hash_model("org/a")
    assert hash_model("org/a@v1") == hash_model("org/a")  # the same commit
    with pytest.raises(ModelError, match="commit of 'org/c' cannot be determined"):
        hash_model("org/c")


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"must be a folder; .*file is a file"):
        check_output(tmp_path / "file" / "out", RECIPE, overwrite=False)


def test_another_tokenizer_is_another_model(encoder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(encoder, tmp_path / "model")
    assert hash_model(str(folder)) == hash_model(str(encoder))
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    content["normalizer"]["lowercase"] = False
    file.write_text(json.dumps(content), "utf-8")
    assert hash_model(str(folder)) != hash_model(str(encoder))


def test_a_strangers_folder_is_refused_with_overwrite_too(tmp_path: Path) -> None:
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="understudy did not write it"):
            check_output(tmp_path, RECIPE, overwrite=overwrite)


@pytest.mark.parametrize("key", ["teacher", "student.model", "data.train", "data.source"])
def test_an_output_folder_that_contains_an_input_is_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "recipe.yaml").write_text("task: mrpc\n")
    inside = tmp_path / "inside"
    inside.mkdir()
    given = {"task": "mrpc", "method": "tinybert", "prediction": {}}
    recipe = Recipe.from_mapping(apply_settings(given, {key: str(inside)}))
    with pytest.raises(OutputError, match=r"contains .*inside, which this command reads"):
        check_output(tmp_path, recipe, overwrite=True)
