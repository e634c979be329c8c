"""model2vec and setfit; `alternatives.py` starts this in the environment of one of them.

    python static.py JOB.json

The job has texts by part ("train", "dev": lists of a text or of two for each row), labels as numbers, whether
they are classes, and the model. Prints predictions of dev, seconds, and megabytes.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    torch.set_num_threads(job["threads"])
    found = {"model2vec": static_model, "setfit": sentence_head}[job["what"]](job)
    found["version"] = importlib.metadata.version(job["what"])
    print(json.dumps(found))


def static_model(job: dict[str, Any]) -> dict[str, Any]:
    """A static model distilled from an encoder, and a logistic or ridge regression on its vectors."""
    from model2vec import StaticModel
    from model2vec.distill import distill
    from sklearn.linear_model import LogisticRegression, Ridge

    made = Path(job["made"])  # once for all tasks
    if not made.exists():
        distill(job["model"], pca_dims=256).save_pretrained(made)
    model = StaticModel.from_pretrained(made)
    before = time.process_time()

    def features(rows: list[list[str]]) -> Any:
        return combine([model.encode([row[side] for row in rows]) for side in range(len(rows[0]))])

    head = LogisticRegression(max_iter=2_000) if job["classes"] else Ridge()
    head.fit(features(job["train"]), job["labels"])
    seconds = time.process_time() - before
    size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
    return {
        "predictions": head.predict(features(job["dev"])).tolist(),
        "seconds": seconds,
        "megabytes": size / 1e6,
        "milliseconds": clock(lambda row: head.predict(features([row])), job["dev"]),
    }


def sentence_head(job: dict[str, Any]) -> dict[str, Any]:
    """setfit: the encoder learns pairs of rows with and without the same label, a head its vectors."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    before = time.process_time()
    rows = [" [SEP] ".join(row) for row in job["train"]]
    model = SetFitModel.from_pretrained(job["model"])
    generator = np.random.default_rng(1)
    chosen = generator.permutation(len(rows))[: job["rows"]]
    data = Dataset.from_dict(
        {"text": [rows[place] for place in chosen], "label": [job["labels"][place] for place in chosen]}
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, batch_size=16, max_steps=job["steps"], num_epochs=1)
        Trainer(model=model, args=arguments, train_dataset=data).train()
        seconds = time.process_time() - before
        model.save_pretrained(folder)
        size = sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))
    dev = [" [SEP] ".join(row) for row in job["dev"]]
    return {
        "predictions": [int(label) for label in model.predict(dev)],
        "seconds": seconds,
        "megabytes": size / 1e6,
        "milliseconds": clock(lambda text: model.predict([text]), dev),
        "rows": len(chosen),
    }


def combine(sides: list[Any]) -> Any:
    """The features of a text, or of a pair: both, their difference and their product."""
    if len(sides) == 1:
        return sides[0]
    left, right = sides
    return np.hstack([left, right, np.abs(left - right), left * right])


def clock(ask: Any, rows: list[Any], count: int = 60) -> float:
    """Median CPU milliseconds of one row."""
    times = []
    for row in rows[:count]:
        before = time.process_time()
        ask(row)
        times.append(1000 * (time.process_time() - before))
    return statistics.median(times)


if __name__ == "__main__":
    main()
