"""What does a step of our embedding students cost compared with sentence-transformers' own trainer?

The same student learns the vectors of the same texts twice: by `understudy.distill` (vectors alone, the
teacher's vectors cached), and by `SentenceTransformerTrainer` with `MSELoss` (the teacher's vectors computed
before). All texts have 24 tokens, so every batch has the same shape. Both take turns in one process: a step
of ours, a step of theirs, including fetching batches, logs and schedules. `ratio` is our median seconds per
step divided by theirs. Both students are scored by Spearman's correlation on STS-B's development set.

    python benchmarks/embedding_step.py MODEL STUDENT --texts texts.txt --assets ../shared/assets

STUDENT is a saved embedding student, e.g. one that was cut and not trained. `--quick` makes 5 steps and
writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MSELoss
from transformers import TrainerCallback

import understudy
from understudy.evaluation.metrics import spearman
from understudy.evaluation.vectors import cosines
from understudy.models.pretrained import load_tokenizer

RESULTS = Path(__file__).parent / "results" / "embedding_step.json"
TOKENS, BATCH, RATE, WARM_UP = 24, 64, 3e-4, 3


class Turns(TrainerCallback):
    """Lets two trainers in two threads make steps in turns, and times them."""

    def __init__(self, mine: threading.Semaphore, other: threading.Semaphore) -> None:
        self.mine, self.other = mine, other
        self.seconds: list[float] = []
        self.started = 0.0

    def _wait(self) -> None:
        self.mine.acquire()
        self.started = time.perf_counter()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._wait()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.perf_counter() - self.started)
        self.other.release()
        self._wait()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.other.release()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("student", type=Path)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    steps = (5 if options.quick else 100) + WARM_UP
    texts = read_texts(options.texts, str(options.model))
    dev = options.assets / "glue" / "STS-B" / "dev.tsv"
    teacher = SentenceTransformer(str(options.model), device="cpu")
    vectors = teacher.encode(texts, batch_size=BATCH, normalize_embeddings=True)
    first, second = threading.Semaphore(1), threading.Semaphore(0)
    ours, theirs = Turns(first, second), Turns(second, first)
    with tempfile.TemporaryDirectory() as folder:
        thread = threading.Thread(
            target=train_theirs, args=(options.student, texts, vectors, steps, theirs, Path(folder))
        )
        thread.start()
        train_ours(options, texts, dev, steps, ours, Path(folder))
        thread.join()
        scores = {
            name: score(Path(folder) / path, dev)
            for name, path in {"ours": "ours/student", "theirs": "theirs"}.items()
        }
    medians = [statistics.median(one.seconds[WARM_UP:]) for one in (ours, theirs)]
    figures = {
        "ratio": round(medians[0] / medians[1], 3),
        "seconds_ours": [round(one, 4) for one in statistics.quantiles(ours.seconds[WARM_UP:], n=4)],
        "seconds_theirs": [round(one, 4) for one in statistics.quantiles(theirs.seconds[WARM_UP:], n=4)],
        "steps": steps - WARM_UP,
        "batch": BATCH,
        "tokens": TOKENS,
        "texts": len(texts),
        "stsb_spearman": {"before": score(options.student, dev), **scores},
    }
    print(json.dumps(figures, indent=2))
    if not options.quick:
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


def train_ours(
    options: argparse.Namespace, texts: list[str], dev: Path, steps: int, turns: Turns, folder: Path
) -> None:
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    training = {
        "max_steps": steps,
        "per_device_train_batch_size": BATCH,
        "learning_rate": RATE,
        "lr_scheduler_type": "linear",
        "warmup_steps": 0,
        "logging_steps": 10,
        "eval_strategy": "no",
        "save_strategy": "no",
        "load_best_model_at_end": False,
        "report_to": "none",
    }
    understudy.distill(
        options.model,
        task="embedding",
        settings={
            "data.unlabelled": [str(folder / "texts.txt")],
            "data.dev": str(dev),
            "student.shape": None,
            "student.init": "general",
            "student.model": str(options.student),
            "intermediate": None,
            "precision": "fp32",
        }
        | {f"prediction.training.{name}": value for name, value in training.items()},
        output_dir=folder / "ours",
        callbacks=[turns],
    )


def train_theirs(
    student: Path, texts: list[str], vectors: np.ndarray, steps: int, turns: Turns, folder: Path
) -> None:
    model = SentenceTransformer(str(student), device="cpu")
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "training"),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        lr_scheduler_type="linear",
        warmup_steps=0,
        logging_steps=10,
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    rows = Dataset.from_dict({"sentence": texts, "label": vectors.tolist()})
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=rows, loss=MSELoss(model), callbacks=[turns]
    )
    trainer.train()
    model.save(str(folder / "theirs"))


def read_texts(file: Path, model: str) -> list[str]:
    """Return the texts of a file that have 24 tokens."""
    tokenizer = load_tokenizer(model)
    texts = file.read_text("utf-8").splitlines()[:60_000]
    lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    return [text for text, length in zip(texts, lengths, strict=True) if length == TOKENS]


def score(folder: Path, dev: Path) -> float:
    """Return Spearman's correlation of cosines and scores on STS-B."""
    rows = [line.split("\t") for line in dev.read_text("utf-8").splitlines()[1:]]
    model = SentenceTransformer(str(folder), device="cpu")
    sides = [model.encode([row[column] for row in rows]) for column in (7, 8)]
    labels = np.array([float(row[9]) for row in rows])
    return round(spearman(np.stack([cosines(*sides), labels], axis=1)), 4)


if __name__ == "__main__":
    main()
