"""`corpus` on small texts: whatever the workers and the engine, killed again and again, and misused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import Command, run_command
from transformers import AutoTokenizer

import understudy
from understudy.data.corpus import HELD_OUT, TRAIN, open_corpus
from understudy.errors import DataError, ModelError, OutputError, RecipeError
from understudy.recipe.load import load_recipe

SMALL = {"corpus.max_length": 32, "corpus.held_out": 0.1, "corpus.shard_megabytes": 0.002}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of documents, every tenth of them a copy of another file's."""
    folder = tmp_path_factory.mktemp("texts")
    generator = random.Random(0)
    nouns = ["cat", "dog", "film", "river", "mountain", "city", "movie"]
    verbs = ["runs", "sleeps", "works", "lives", "lies"]
    for file in range(3):
        documents = []
        for number in range(60):
            if number % 10 == 9:
                generator.seed(f"copy {number}")
            sentences = [
                f"the {generator.choice(nouns)} {generator.choice(verbs)} in the {generator.choice(nouns)}."
                for _ in range(generator.randrange(1, 12))
            ]
            documents.append(" ".join(sentences))
        path = folder / f"{file}.jsonl"
        path.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents))
    return folder


def command(encoder: Path, texts: Path, output: Path, *more: str) -> list[str]:
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    start = ["corpus", str(texts), "--tokenizer", str(encoder)]
    return [*start, *settings, "--output-dir", str(output), *more]


PROGRAM = [sys.executable, "-m", "understudy"]  # for commands that start processes of their own


def hashes(output: Path) -> dict[str, str]:
    content = json.loads((output / "result.json").read_text())
    return {name: file["hash"] for name, file in content["files"].items()}


@pytest.fixture(scope="module")
def made(encoder: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("corpora") / "made"
    understudy.corpus([texts], tokenizer=encoder, output_dir=output, settings=SMALL)
    return output


def test_every_document_is_there_once_and_apart_from_others(made: Path, texts: Path) -> None:
    content, blocks = open_corpus(made)
    counts = content["corpus"]
    lines = [line for file in sorted(texts.iterdir()) for line in file.read_text().splitlines()]
    assert counts["documents"] == 180
    assert counts["duplicates"] == 180 - len(set(lines)) >= 12
    assert sum(counts["documents_kept"].values()) == len(set(lines))
    assert 0 < counts["documents_kept"][HELD_OUT] < 50
    assert len(blocks[TRAIN]) == counts["blocks"][TRAIN]
    assert len(content["files"]) >= 10
    tokens = [len(part[number]["input_ids"]) for part in blocks.values() for number in range(len(part))]
    assert sum(tokens) == sum(counts["tokens"].values())
    assert max(tokens) <= 32
    # What is left of the documents, put together again.
    tokenizer: Any = AutoTokenizer.from_pretrained(
        load_recipe(made / "recipe.yaml").corpus.tokenizer  # type: ignore[union-attr]
    )
    expected = sorted(
        {tokenizer.decode(tokenizer(json.loads(line)["text"])["input_ids"][1:-1]) for line in lines}
    )
    found: list[str] = []
    for part in blocks.values():
        text = " ".join(tokenizer.decode(part[number]["input_ids"][1:-1]) for number in range(len(part)))
        found.append(text)
    joined = " ".join(found)
    assert len(joined) == sum(map(len, expected)) + len(expected) - 1
    assert all(document in joined for document in expected)


def test_one_worker_and_two_make_the_same_files(
    made: Path, encoder: Path, texts: Path, tmp_path: Path
) -> None:
    two = command(encoder, texts, tmp_path / "two", "--workers", "2")
    subprocess.run([*PROGRAM, *two], check=True, capture_output=True)
    assert hashes(made) == hashes(tmp_path / "two")


def test_a_run_killed_again_and_again_has_the_files_of_an_undisturbed_one(
    made: Path, encoder: Path, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "killed"
    generator = random.Random(1)

    def num_files() -> int:
        return len([file for file in output.rglob("part-*") if file.suffix in (".npy", ".arrow")])

    for _ in range(5):
        before = num_files()
        wanted = before + generator.randrange(1, 6)
        Command(command(encoder, texts, output)).kill_when(lambda wanted=wanted: num_files() >= wanted)  # type: ignore[misc]
        assert not (output / "result.json").exists()
    assert "are done already" in run_command(command(encoder, texts, output))
    assert hashes(made) == hashes(output)
    assert not list(output.rglob("*.writing"))
    assert not (output / "documents").exists()


def test_pairs_are_made_by_a_setting_and_a_seed(
    made: Path, encoder: Path, texts: Path, tmp_path: Path
) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = SMALL | {"corpus.pairs": True, "seed": seed}
        understudy.corpus([texts], tokenizer=encoder, output_dir=tmp_path / name, settings=settings)
        found.append(hashes(tmp_path / name))
    assert found[0] == found[1] != found[2]
    _, blocks = open_corpus(tmp_path / "a")
    assert {0, 1} == set(blocks[TRAIN][0]["token_type_ids"])


def test_what_is_refused(made: Path, encoder: Path, texts: Path, tmp_path: Path) -> None:
    def corpus(sources: Any = (texts,), settings: Any = SMALL, **more: Any) -> None:
        options = {"tokenizer": encoder, "output_dir": tmp_path / "out"} | more
        understudy.corpus(sources, settings=settings, **options)

    with pytest.raises(RecipeError, match=r"corpus\.sources must be given"):
        corpus(())
    with pytest.raises(RecipeError, match=r"corpus\.tokenizer must be given"):
        corpus(tokenizer=None)
    with pytest.raises(RecipeError, match="--engine must be one of local, ray"):
        corpus(engine="spark")
    with pytest.raises(RecipeError, match="task has no effect with a block corpus:; its keys are corpus"):
        corpus(settings={"task": "mrpc"})
    with pytest.raises(DataError, match=r"none of the first \d+ documents .* in the column 'body'"):
        corpus(settings=SMALL | {"corpus.column": "body"})
    pq.write_table(pa.table({"body": ["one"]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match=r"no column 'text'; it has body\..*--set corpus\.column"):
        corpus((tmp_path / "other.parquet",))
    with pytest.raises(OutputError, match=r"must not be inside corpus\.sources"):
        corpus(output_dir=texts / "corpus")
    with pytest.raises(OutputError, match="understudy did not write it"):
        corpus((f"{texts}/*.jsonl",), output_dir=texts, overwrite=True)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DataError, match="all 1 files are empty"):
        corpus((tmp_path / "empty.txt",))
    with pytest.raises(OutputError, match="holds a finished run"):
        corpus(output_dir=made)
    with pytest.raises(ModelError, match=r"corpus\.max_length is 500, and the model reads at most 128"):
        corpus(settings={"corpus.max_length": 500})
    assert not (tmp_path / "out").exists()


def test_a_flipped_bit_of_a_finished_corpus_is_found_when_it_is_read(
    encoder: Path, texts: Path, tmp_path: Path
) -> None:
    understudy.corpus([texts], tokenizer=encoder, output_dir=tmp_path / "out", settings=SMALL)
    file = tmp_path / "out" / "train" / "part-000000.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    _, blocks = open_corpus(tmp_path / "out")
    with pytest.raises(DataError, match=r"part-000000\.arrow is not what understudy corpus wrote"):
        blocks[TRAIN][0]
