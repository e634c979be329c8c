"""Does memory grow with the number of rows?

For each size, writes a CSV, loads, checks and encodes it in a separate process, and samples the memory that
the process itself holds (anonymous pages, since the system can drop mapped files). With `--unlabelled`, the
rows have no labels, a tiny teacher predicts them, and some batches are read with its predictions.

    python benchmarks/million_rows.py --tokenizer ../shared/assets/bert-12l-384h-mlm

`--quick` compares 2,000 with 20,000 rows.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    "film",
    "was",
    "good",
    "bad",
    "great",
    "awful",
    "and",
    "not",
    "very",
    "long",
    "short",
    "a",
    "story",
    "of",
    "love",
    "war",
    "in",
    "city",
    "river",
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", default="../shared/assets/bert-12l-384h-mlm")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--unlabelled", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.tokenizer, unlabelled=options.unlabelled)))
        return
    figures = []
    for num_rows in [2_000, 20_000] if options.quick else options.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            write_rows(path, num_rows)
            command = [sys.executable, __file__, "--measure", str(path), "--tokenizer", options.tokenizer]
            command += ["--unlabelled"] if options.unlabelled else []
            environment = os.environ | {"UNDERSTUDY_CACHE": folder, "HF_HUB_OFFLINE": "1"}
            finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            figures.append({"rows": num_rows, "file_mb": round(path.stat().st_size / 1e6, 1)})
            figures[-1] |= json.loads(finished.stdout.splitlines()[-1])
    print(f"{'rows':>10} {'file MB':>8} {'before MB':>10} {'peak MB':>8} {'seconds':>8}", file=sys.stderr)
    for figure in figures:
        print(
            f"{figure['rows']:>10,} {figure['file_mb']:>8} {figure['before_mb']:>10} {figure['peak_mb']:>8} "
            f"{figure['seconds']:>8}",
            file=sys.stderr,
        )
    print(json.dumps({"sizes": figures, "growth_mb": figures[-1]["peak_mb"] - figures[0]["peak_mb"]}))


def write_rows(path: Path, num_rows: int) -> None:
    generator = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(num_rows):
            words = generator.choices(WORDS, k=generator.randint(5, 30))
            writer.writerow([f"{number} {' '.join(words)}", number % 3])


def measure(path: Path, tokenizer_name: str, *, unlabelled: bool) -> dict[str, float]:
    from understudy.data.encode import encode
    from understudy.data.load import load_data
    from understudy.data.settings import DataSettings
    from understudy.kinds.tasks import get_task
    from understudy.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(tokenizer_name)
    before = anonymous_mb()
    peak = before
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, anonymous_mb())

    sampler = threading.Thread(target=sample, daemon=True)  # an error ends the process
    sampler.start()
    start = time.perf_counter()
    task = get_task("classification")
    split = "unlabelled" if unlabelled else "train"
    settings = DataSettings(train=str(path))
    if unlabelled:
        settings = DataSettings(dev=str(write_dev(path)), unlabelled=[str(path)])
    splits = ["train", "dev"] if unlabelled else ["train"]
    data = load_data(task, settings, splits)
    encoded = encode(data.splits[split], task.kind, tokenizer, max_length=64)
    if unlabelled:
        read_predictions(encoded, task.kind, tokenizer, path.parent)
    seconds = time.perf_counter() - start
    done.set()
    sampler.join()
    assert len(encoded) == data.reports[split].num_read
    return {"before_mb": round(before), "peak_mb": round(peak), "seconds": round(seconds, 1)}


def write_dev(path: Path) -> Path:
    """Write a development set: other texts, with the labels of the first rows."""
    file = path.with_name("dev.csv")
    with path.open(newline="") as rows, file.open("w", newline="") as dev:
        reader = csv.DictReader(rows)
        writer = csv.DictWriter(dev, reader.fieldnames or ())
        writer.writeheader()
        for row in itertools.islice(reader, 100):
            writer.writerow({**row, "text": f"development: {row['text']}"})
    return file


def read_predictions(encoded: Any, kind: Any, tokenizer: Any, folder: Path) -> None:
    """Let a tiny teacher predict all rows, and read batches from all over them."""
    from transformers import BertConfig, BertForSequenceClassification

    from understudy.data.encode import Collator
    from understudy.distillation.teacher_cache import add_teacher_answers
    from understudy.training.arguments import build_arguments

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=3, **sizes)
    teacher = BertForSequenceClassification(config).eval()
    arguments = build_arguments({}, folder / "training")
    answered = add_teacher_answers(encoded, kind, lambda: teacher, tokenizer, "tiny", arguments)
    collate, chosen = Collator(tokenizer), random.Random(0).sample(range(len(answered)), 3_200)
    for first in range(0, len(chosen), 32):
        collate([answered[place] for place in chosen[first : first + 32]])


def anonymous_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) / 1024


if __name__ == "__main__":
    main()
