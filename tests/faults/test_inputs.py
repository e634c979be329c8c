"""Files that were changed at random: every reader reads them, or refuses them by an error of ours.

`FAULTS_EXAMPLES=100000 pytest tests/faults/test_inputs.py` tries as many of each kind; hypothesis prints what
brings a failure back.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from world import World

from understudy.artifacts.artifact import read_artifact
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import UnderstudyError
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_config, load_tokenizer
from understudy.predictor.tables import read_file
from understudy.recipe.library import read_shipped
from understudy.recipe.load import load_recipe

EXAMPLES = int(os.environ.get("FAULTS_EXAMPLES", "60"))
MOST_SECONDS = 5
ROWS = [{"text": f"the film {place} was good", "label": "pos" if place % 2 else "neg"} for place in range(8)]
ODD = [b"\0", b"\xff", b'"', b"\n", b"\r\n", b"\t", b",", b"{", b"]", b"'", b"\xef\xbb\xbf", b"1e999", b"NaN"]


def as_parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), buffer)
    return buffer.getvalue()


FILES = {
    ".csv": b"text,label\n" + b"".join(f'"{row["text"]}",{row["label"]}\n'.encode() for row in ROWS),
    ".tsv": b"text\tlabel\n" + b"".join(f"{row['text']}\t{row['label']}\n".encode() for row in ROWS),
    ".jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in ROWS),
    ".parquet": as_parquet(),
    ".txt": b"".join(row["text"].encode() + b"\n" for row in ROWS),
}


@st.composite
def changed(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes of a file flipped, left out, doubled, or replaced by odd ones."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, max(0, len(data) - 1)))
        stop = draw(st.integers(start, min(len(data), start + 40)))
        piece = bytes(data[start:stop])
        data[start:stop] = draw(
            st.sampled_from([b"", piece * 2, piece[::-1], *ODD])
            | st.binary(max_size=12)
            | st.just(piece * 50)
        )
    return bytes(data)


def check(read: Callable[[], object]) -> None:
    started = time.process_time()
    told = "it was read"
    try:
        read()
    except UnderstudyError as error:
        told = str(error)
    assert told.strip()
    assert time.process_time() - started < MOST_SECONDS


settings = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize="FAULTS_EXAMPLES" not in os.environ,  # CI tries the same each time
    suppress_health_check=list(hypothesis.HealthCheck),
    database=None,
)


@pytest.mark.parametrize("suffix", FILES)
@hypothesis.given(data=st.data())
@settings
def test_rows(suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rows")
    file = folder / f"rows{suffix}"
    file.write_bytes(data.draw(changed(FILES[suffix])))
    check(lambda: list(read_file(file, ("text",), given={}, trained={}).records))
    if suffix != ".txt":
        task = get_task("classification")
        check(lambda: load_data(task, DataSettings(train=str(file)), ["train"]))


@hypothesis.given(data=st.data())
@settings
def test_recipes(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = data.draw(st.sampled_from(["quickstart", "desk-sst2", "tinybert-classification", "mine"]))
    file = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
    file.write_bytes(data.draw(changed(read_shipped(name).encode())))
    check(lambda: load_recipe(file))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@hypothesis.given(data=st.data())
@settings
def test_models(
    name: str, data: st.DataObject, encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("model")
    for file in encoder.glob("*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / name).write_bytes(data.draw(changed((encoder / name).read_bytes())))
    check(lambda: load_config(str(folder)) if name == "config.json" else load_tokenizer(str(folder)))


@hypothesis.given(data=st.data())
@settings
def test_artifacts(data: st.DataObject, world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("artifact")
    content = (world.artifact / "artifact.json").read_bytes()
    (folder / "artifact.json").write_bytes(data.draw(changed(content)))
    check(lambda: read_artifact(folder))


PAGE = FILES[".parquet"].index(b"\x15\x04")
FOUND = {
    ".tsv": b"\r" + FILES[".tsv"],  # a carriage return inside of a line
    ".parquet": FILES[".parquet"][:PAGE] + b"\xff\xff" + FILES[".parquet"][PAGE + 2 :],  # a broken page
    ".jsonl": b'{"text":' * 100_000,
}


@pytest.mark.parametrize("suffix", FOUND)
def test_what_was_found(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows{suffix}"
    file.write_bytes(FOUND[suffix])
    check(lambda: load_data(get_task("classification"), DataSettings(train=str(file)), ["train"]))
    check(lambda: list(read_file(file, ("text",), given={}, trained={}).records))
