"""Do memory and open files stay constant in a long-running process?

A tiny classifier takes 10,000 steps of both TinyBERT stages, is evaluated 1,000 times and exported 100 times,
and its artifact predicts 100,000 texts, each part in its own process. Memory and open files are measured
eleven times in each part.

    python benchmarks/long.py

`growth_mb` is how much the memory grew from the third measurement, when everything is imported and cached,
to the last one. `--quick` does a hundredth of it and writes no results.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from runs import git_commit, machine

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

RESULTS = Path(__file__).parent / "results" / "long.json"
COUNTS = {"steps": 10_000, "evaluations": 1_000, "exports": 100, "predictions": 100_000}
READINGS = 10
WORDS = ["the", "film", "was", "good", "bad", "very", "not", "a", "great", "awful"]
QUIET = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=COUNTS, default=list(COUNTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["UNDERSTUDY_CACHE"] = str(folder / "cache")
        in_new_process(prepare, folder)
        for part in options.parts:
            count = max(READINGS, COUNTS[part] // 100) if options.quick else COUNTS[part]
            readings = in_new_process(PARTS[part], folder, count)
            results[part] = {
                "count": count,
                "growth_mb": round(readings[-1]["mb"] - readings[2]["mb"], 1),
                "more_open_files": readings[-1]["open_files"] - readings[2]["open_files"],
                "readings": readings,
                "commit": git_commit(),
                "machine": machine(),
            }
            print(part, json.dumps(results[part]), file=sys.stderr)
            if not options.quick:
                RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    print(json.dumps({part: {key: results[part][key] for key in ("growth_mb", "more_open_files")}
                      for part in options.parts}))  # fmt: skip


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process that has done nothing else."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def reading() -> dict[str, float]:
    gc.collect()
    process = psutil.Process()
    return {"mb": round(process.memory_info().rss / 1e6, 1), "open_files": process.num_fds()}


def repeat(function: Callable[[], object], count: int) -> list[dict[str, float]]:
    """Call a function so often, and read memory and open files before, on the way and at the end."""
    readings = [reading()]
    for number in range(1, count + 1):
        function()
        if number * READINGS // count > (number - 1) * READINGS // count:
            readings.append(reading())
    return readings


def prepare(folder: Path) -> None:
    """A tiny encoder, its rows, a teacher and an artifact."""
    import understudy
    from small_models import make_tokenizer, write_encoder

    write_encoder(folder / "encoder", make_tokenizer(WORDS, max_length=32), width=16)
    rows = [(f"the film {n % 7} was {word}", "pos" if word in ("good", "great") else "neg")
            for n in range(16) for word in ("good", "bad", "great", "awful")]  # fmt: skip
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    settings = {f"training.{name}": value for name, value in {**QUIET, "max_steps": 50}.items()}
    settings |= {f"data.{split}": str(folder / "rows.csv") for split in ("train", "dev")}
    settings |= {"data.max_length": 16}
    understudy.finetune(
        folder / "encoder", task="classification", output_dir=folder / "teacher", settings=settings
    )
    understudy.export(folder / "teacher", output_dir=folder / "artifact", speed=False, tolerance=100.0)


def steps(folder: Path, count: int) -> list[dict[str, float]]:
    from transformers import TrainerCallback

    import understudy

    readings = [reading()]

    class Read(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % (count // READINGS) == 0:
                readings.append(reading())

    settings: dict[str, Any] = {"prediction.search": None, "prediction.training.eval_strategy": "no"}
    for stage, share in (("intermediate", count // 2), ("prediction", count - count // 2)):
        block = {**QUIET, "max_steps": share, "per_device_train_batch_size": 4, "logging_steps": 50}
        settings |= {f"{stage}.training.{name}": value for name, value in block.items()}
    understudy.distill(
        folder / "teacher", student="1l-8d", output_dir=folder / "student", settings=settings,
        callbacks=[Read()],
    )  # fmt: skip
    return readings


def evaluations(folder: Path, count: int) -> list[dict[str, float]]:
    import understudy

    return repeat(lambda: understudy.evaluate(folder / "teacher"), count)


def exports(folder: Path, count: int) -> list[dict[str, float]]:
    import understudy

    def export() -> None:
        understudy.export(
            folder / "teacher", output_dir=folder / "again", speed=False, tolerance=100.0, overwrite=True
        )

    return repeat(export, count)


def predictions(folder: Path, count: int) -> list[dict[str, float]]:
    from understudy.predictor import Predictor

    predict = Predictor(folder / "artifact", threads=1)
    return repeat(lambda: predict("the film was very good"), count)


PARTS = {"steps": steps, "evaluations": evaluations, "exports": exports, "predictions": predictions}


if __name__ == "__main__":
    main()
