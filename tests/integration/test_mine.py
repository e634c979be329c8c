"""`mine` on small texts: what is found, whatever the workers and the engine, killed, and misused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from processes import Command
from teaching import method_settings, train_teacher
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import DataError, OutputError, RecipeError

NOUNS = ["cat", "dog", "film", "river", "mountain", "city", "movie"]
SMALL = {"mine.neighbours": 4, "mine.shard_megabytes": 0.002, "mine.duplicate": 0.999}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that speak of the task's things, and of others."""
    folder, generator = tmp_path_factory.mktemp("texts"), random.Random(0)
    for file in range(2):
        documents = []
        for _ in range(60):
            sentences = []
            for _ in range(generator.randrange(1, 6)):
                noun, other = generator.sample(NOUNS, 2)
                end = generator.choice(["good", "bad", f"in the {other}", "here", "slow", "fast", "awful"])
                sentences.append(f"the {noun} was {end}.")
            documents.append(" ".join(sentences))
        (folder / f"{file}.jsonl").write_text(
            "".join(json.dumps({"text": document}) + "\n" for document in documents)
        )
    return folder


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(encoder, "classification", tmp_path_factory.mktemp("taught"))


def rows(output: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(output / "rows" / "part-000000.parquet").to_pylist()
    return found


@pytest.fixture(scope="module")
def mined(teacher: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("mined") / "out"
    given = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    arguments = ["mine", str(texts), "--teacher", str(teacher), "--output-dir", str(output), *given, "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["mined"]["written"] == len(rows(output))
    assert "distil with --unlabelled" in done.stderr
    return output


def test_it_finds_texts_like_the_tasks(mined: Path, teacher: Path) -> None:
    content = json.loads((mined / "result.json").read_text())
    found, counts = rows(mined), content["mined"]
    assert list(found[0]) == ["text", "similarity"]
    assert len({row["text"] for row in found}) == len(found) == counts["written"] <= counts["found"]
    assert sorted((row["similarity"] for row in found), reverse=True) == [row["similarity"] for row in found]
    assert sum(counts["groups"].values()) == len(found)
    # Nothing that the task has already.
    known = {row["text"] for row in understudy_rows(teacher)}
    assert known
    assert not {row["text"].rstrip(".") for row in found} & {text.rstrip(".") for text in known}
    assert not (mined / "found").exists()


def understudy_rows(teacher: Path) -> list[dict[str, Any]]:
    from understudy.data.load import load_data
    from understudy.recipe.load import load_recipe

    recipe = load_recipe(teacher / "recipe.yaml")
    return list(load_data(recipe.task_definition, recipe.data, ["train"]).splits["train"])


def test_a_student_learns_from_them(mined: Path, teacher: Path, tmp_path: Path) -> None:
    done = understudy.distill(
        teacher,
        method="joint",
        student="1l-16d",
        unlabelled=[mined / "rows"],
        output_dir=tmp_path / "student",
        settings=method_settings(("joint",), max_steps=3),
    )
    assert done.content["counts"]["unlabelled"]["rows"] == len(rows(mined))


def command(teacher: Path, texts: Path, output: Path, *more: str) -> list[str]:
    start = ["mine", str(texts), "--teacher", str(teacher)]
    settings = [f"--set={key}={value}" for key, value in SMALL.items()]
    return [*start, *settings, "--output-dir", str(output), *more]


def test_workers_change_nothing(mined: Path, teacher: Path, texts: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "understudy"]
    arguments = command(teacher, texts, tmp_path / "out", "--workers", "2")
    subprocess.run([*program, *arguments], check=True)
    assert rows(tmp_path / "out") == rows(mined)


def test_killed_it_finds_the_same(mined: Path, teacher: Path, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = Command(command(teacher, texts, output))
    process.kill_when((output / "found" / "part-000000.parquet").exists)
    assert not (output / "result.json").exists()
    result = understudy.mine([texts], teacher=teacher, output_dir=output, settings=SMALL)
    assert rows(output) == rows(mined)
    assert result.num_sentences == json.loads((mined / "result.json").read_text())["mined"]["sentences"]


@pytest.mark.parametrize("vectors", ["static", "states"])
def test_pairs_of_a_task_of_pairs(vectors: str, encoder: Path, texts: Path, tmp_path: Path) -> None:
    lines = ["text,text_pair,label"] + [
        f"the {a} was good,the {b} was bad,{int(a < b)}" for a in NOUNS for b in NOUNS
    ]
    file = tmp_path / "pairs.csv"
    file.write_text("\n".join(lines) + "\n")
    settings = SMALL | {
        "mine.vectors": vectors,
        "data.train": str(file),
        "data.dev": str(file),
        "mine.pairs.augmented": 0.3,
        "augment.model": str(encoder),
    }
    result = understudy.mine(
        [texts], task="classification", encoder=encoder, output_dir=tmp_path / "out", settings=settings
    )
    found = rows(tmp_path / "out")
    assert set(found[0]) == {"text", "text_pair", "similarity", "pair"}
    assert set(result.content["mined"]["pairs"]) == {"neighbours", "adjacent", "random", "augmented"}
    assert result.content["mined"]["groups"] is None  # there is no teacher to balance by


def test_excluded_rows_are_not_found(mined: Path, teacher: Path, texts: Path, tmp_path: Path) -> None:
    test_set = tmp_path / "test.csv"
    banned = rows(mined)[0]["text"]
    test_set.write_text(f"text\n{banned.upper()}\n")
    more = {"mine.exclude": [str(test_set)]}
    understudy.mine([texts], teacher=teacher, output_dir=tmp_path / "out", settings=SMALL | more)
    assert banned not in {row["text"] for row in rows(tmp_path / "out")}


def test_misuse_is_explained(encoder: Path, teacher: Path, texts: Path, mined: Path, tmp_path: Path) -> None:
    def refused(error: type[Exception], message: str, **given: Any) -> None:
        options = {"teacher": teacher, "sources": [texts], "output_dir": tmp_path / "no"} | given
        with pytest.raises(error, match=message):
            understudy.mine(options.pop("sources"), **options)
        assert not (tmp_path / "no").exists()

    refused(RecipeError, r"mine\.sources must be given", sources=None)
    refused(RecipeError, "--task must be given", teacher=None, encoder=encoder)
    refused(RecipeError, r"mine\.encoder or a teacher must be given", teacher=None, task="cola")
    refused(
        RecipeError,
        "every share is 0",
        settings={f"mine.pairs.{name}": 0 for name in ("neighbours", "adjacent", "random")},
    )
    refused(RecipeError, r"needs augment\.model", settings={"mine.pairs.augmented": 1})
    refused(RecipeError, "augment has no effect", settings={"augment.model": str(encoder)})
    refused(DataError, r"mine\.sources: .* is neither", sources=["./absent"])
    refused(DataError, r"column 'body'.*mine\.column", settings={"mine.column": "body"})
    refused(OutputError, r"must not be inside mine\.sources", output_dir=texts / "out")
    refused(OutputError, "holds a finished run", output_dir=mined)
