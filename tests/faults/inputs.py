"""Odd texts by the million: rows through the readers, and texts through Predictor and a server.

python tests/faults/inputs.py --rows 1000000 --predictions 100000

Two things are checked of the rows of a file. One that was written as its format says is read as it was
written, to the letter, or is counted as bad with a reason. And a file that was spoilt, by bytes flipped, left
out, doubled or replaced, is read or refused by an error of ours. A text gets a prediction that is one of the
model's labels, with a probability between 0 and 1, or an error of ours. Results are added to
benchmarks/results/faults.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "integration")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import UnderstudyError
from understudy.kinds.tasks import get_task
from understudy.predictor import Predictor
from understudy.predictor.tables import read_file
from understudy.serve.client import Client, ServerError

RESULTS = HERE.parents[1] / "benchmarks" / "results" / "faults.json"
ROWS_PER_FILE = 1_000
MOST_SECONDS = 5.0
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
LABELS = ("good", "bad")
PIECES = (
    *("the film was good", "a", "  ", " ", "\t", "\n", "\r\n", "\r", "\u2028", "\x0b", "\x0c", "\x85"),
    *('"', '""', "'", "`", ",", ";", "|", "\\", "\\n", "{", "}", "[", "]", "<b>", "&amp;", "#", "=1+1"),
    *("\ufeff", "\u200b", "\u200d", "\u202e", "\u00ad", "\x01", "\x1b[31m", "\x7f", "\ufffd", "\U0010ffff"),
    *(
        "é",
        "e\u0301",
        "ß",
        "İ",
        "ı",
        "ſ",
        "ﬁ",
        "Ω",
        "ж",
        "א",
        "ع",
        "ह",
        "क्ष",
        "中文",
        "日本",
        "한",
        "👩‍👩‍👧",
        "🏳️‍🌈",
    ),
    *("NaN", "nan", "null", "None", "NA", "", "0", "-1", "1e999", "1_000", "true", "1.0", "٣"),
    *(
        "[CLS]",
        "[SEP]",
        "[PAD]",
        "[MASK]",
        "[UNK]",
        "##a",
        "http://a.b/?c=d",
        "x" * 300,
        "a " * 200,
        "é" * 99,
    ),
)
SPOILS = (b"", b"\0", b"\xff", b"\xc3", b'"', b"\n", b"\r", b"\t", b",", b"{", b"]", b"\xef\xbb\xbf", b"NaN")


def odd_text(generator: random.Random, suffix: str = "") -> str:
    """Return a text of a few odd pieces and characters, for TSV without tabs and ends of lines."""
    pieces = generator.choices(PIECES, k=generator.randint(1, 6))
    if generator.random() < 0.3:
        pieces.append(chr(generator.choice([*range(0x21, 0x2000, 7), *range(0x1F000, 0x1FA00, 5)])))
    text = generator.choice(["", " "]).join(pieces)
    return re.sub(r"[\t\n\r]", "_", text) if suffix == ".tsv" else text


def write_rows(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Write rows as a format says: quoted where it has quotes, and in TSV plain tabs."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        elif path.suffix == ".tsv":
            lines = [["text", "label"], *(row.values() for row in rows)]
            file.writelines("\t".join(line) + "\n" for line in lines)
        else:
            table = csv.DictWriter(file, ["text", "label"])
            table.writeheader()
            table.writerows(rows)


def spoil(content: bytes, generator: random.Random) -> bytes:
    """Change some bytes of a file."""
    data = bytearray(content)
    for _ in range(generator.choice([1, 3, 30, 300])):
        start = generator.randrange(len(data) or 1)
        piece = bytes(data[start : start + generator.randrange(40)])
        data[start : start + len(piece)] = generator.choice([piece[::-1], piece * 2, *SPOILS])
    return bytes(data)


class Watch:
    """What was seen of many calls: how many were refused, the slowest, and how the memory grew."""

    def __init__(self, process: int | None = None) -> None:
        self.calls = self.refused = 0
        self.slowest = 0.0
        self._memory: list[int] = []
        self._process = psutil.Process(process)

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function; None if it refuses what it was given. Other exceptions are not caught."""
        started = self._seconds()
        try:
            return function()
        except UnderstudyError as error:
            if isinstance(error, ServerError) or not str(error).strip():
                raise
            self.refused += 1
            return None
        finally:
            self.calls += 1
            self.slowest = max(self.slowest, self._seconds() - started)
            assert self.slowest < MOST_SECONDS

    def _seconds(self) -> float:
        """CPU time of the process, so that a busy machine makes nothing slow."""
        return sum(self._process.cpu_times()[:2])

    def note_memory(self) -> None:
        self._memory.append(self._process.memory_info().rss)

    @property
    def growth_mb(self) -> float:
        """Growth of memory from the first fifth to the last one."""
        fifth = max(1, len(self._memory) // 5)
        return round((max(self._memory[-fifth:]) - max(self._memory[:fifth])) / 1e6, 1)

    def figures(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "refused": self.refused,
            "slowest_seconds": round(self.slowest, 2),
            "growth_mb": self.growth_mb,
        }


def read_rows(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Read so many rows, of whole and of spoilt files; return what was seen."""
    task, watch, num_equal, num_bad = get_task("classification"), Watch(), 0, 0
    for number in range(math.ceil(count / ROWS_PER_FILE)):
        generator = random.Random(f"rows {seed} {number}")
        path = folder / f"rows{SUFFIXES[number % len(SUFFIXES)]}"
        rows = [
            {"text": odd_text(generator, path.suffix), "label": generator.choice(LABELS)}
            for _ in range(ROWS_PER_FILE)
        ]
        write_rows(rows, path)
        is_whole = number // len(SUFFIXES) % 2 == 0
        if not is_whole:
            path.write_bytes(spoil(path.read_bytes(), generator))
        settings = DataSettings(train=str(path), bad_rows="drop", labels=list(LABELS))
        found = watch.call(lambda: load_data(task, settings, ["train"]))  # noqa: B023
        if is_whole:
            kept = dict(zip(found.splits["train"]["row"], found.splits["train"]["text"], strict=True))
            for place, row in enumerate(rows):
                assert kept.get(place, row["text"]) == row["text"], (
                    f"seed {seed}, {path.name} {number}: {row}"
                )
            bad = sum(not row["text"].strip() or "\x00" in row["text"] for row in rows)
            assert len(kept) == len(rows) - bad == found.reports["train"].num_kept
            num_equal, num_bad = num_equal + len(kept), num_bad + bad
        watch.call(lambda: list(read_file(path, ("text",), given={}, trained={}).records))  # noqa: B023
        _forget_cache()
        watch.note_memory()
    return {"rows": count, "equal": num_equal, "bad": num_bad, **watch.figures()}


def _forget_cache() -> None:
    """Remove the rows that were checked: nobody reads them again."""
    shutil.rmtree(os.environ["UNDERSTUDY_CACHE"], ignore_errors=True)


def odd_input(generator: random.Random, number: int) -> Any:
    """Return a text, now and then a few of them, or something that is no text."""
    if number % 10 == 0:
        return [odd_text(generator) for _ in range(generator.randint(0, 8))]
    if number % 50 == 1:
        return generator.choice([None, 1, 1.5, b"text", {}, {"text": None}, {"txt": "a"}, [None], [[]], True])
    return odd_text(generator)


def predict_texts(
    predict: Callable[[Any], Any], watch: Watch, labels: Sequence[str], count: int, seed: int
) -> dict[str, Any]:
    """Predict so many texts, one by one and in small batches, and other things than texts."""
    generator = random.Random(f"predictions {seed}")
    for number in range(count):
        given = odd_input(generator, number)
        if isinstance(given, bytes) and isinstance(predict, Client):
            given = str(given)  # JSON has no bytes
        found = watch.call(lambda: predict(given))  # noqa: B023
        for one in found if isinstance(found, list) else [found] if found else []:
            assert one["label"] in labels, given
            assert 0 <= one["score"] <= 1, given
        if number % 500 == 0:
            watch.note_memory()
    return {"predictions": count, **watch.figures()}


def main() -> None:
    from servers import Server
    from world import make_world

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["UNDERSTUDY_CACHE"] = str(folder / "cache")
        world = make_world(folder / "world")
        figures = {"rows": read_rows(options.rows, options.seed, folder)}
        predictor = Predictor(world.artifact)
        asked = (predictor.artifact.labels, options.predictions, options.seed)
        figures["predictor"] = predict_texts(predictor, Watch(), *asked)
        with Server(folder, str(world.artifact), "--workers", "1") as server, Client(server.url) as client:
            figures["server"] = predict_texts(client, Watch(server.process.pid), *asked)
    content = json.loads(options.output.read_text("utf-8")) if options.output.exists() else {}
    options.output.write_text(json.dumps(content | {"inputs": figures}, indent=2) + "\n", "utf-8")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
