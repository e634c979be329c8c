r"""How long does a small embedding model take for a text, beside its teacher and a static model?

Texts to vectors, tokenisation included, one thread each: the teacher with sentence-transformers, artifacts
with `Predictor`, and a static model of model2vec. The texts are sentences of QNLI's development set, one at a
time and 32 at a time. All take turns in one process, and the figures are medians over rounds of CPU
milliseconds, with quartiles.

    python -c "import model2vec.distill as m; m.distill('MODEL', pca_dims=256).save_pretrained('static')"
    python benchmarks/embedding_speed.py MODEL --artifact "teacher, int8=artifacts/teacher" \
        --artifact "student, int8=artifacts/student" --static static

`--artifact NAME=FOLDER` may be repeated. model2vec 0.10 with its extra `distill` makes the static model;
without `--static` there is none. `--quick` makes two rounds and writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from embeddings import read_pairs
from runs import git_commit, machine
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "embedding_speed.json"
BATCHES = (1, 32)
ROUNDS, TEXTS = 30, 96


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--artifact", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--static", type=Path)
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = read_pairs(options.assets, "QNLI")[1][:TEXTS]
    models, megabytes = open_models(options)
    found: dict[tuple[str, int], list[float]] = {(name, batch): [] for name in models for batch in BATCHES}
    for _ in range(2 if options.quick else ROUNDS):
        for batch in BATCHES:
            for name, encode in models.items():
                found[name, batch].append(milliseconds(encode, texts, batch))
    results: dict[str, Any] = {"commit": git_commit(), "machine": machine(), "texts": TEXTS, "models": {}}
    for name in models:
        results["models"][name] = {"megabytes": round(megabytes[name], 1)} | {
            f"cpu_ms_{batch}": describe(found[name, batch]) for batch in BATCHES
        }
        print(f"{name:30} {megabytes[name]:7.1f} MB", results["models"][name], file=sys.stderr)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    print(json.dumps(results))


def open_models(
    options: argparse.Namespace,
) -> tuple[dict[str, Callable[[list[str]], Any]], dict[str, float]]:
    """Return a function from texts to vectors for each model, and the sizes of their weights in megabytes."""
    teacher = SentenceTransformer(str(options.model), device="cpu")
    models: dict[str, Callable[[list[str]], Any]] = {"teacher, torch": teacher.encode}
    megabytes = {"teacher, torch": (options.model / "model.safetensors").stat().st_size / 1e6}
    for given in options.artifact:
        name, _, folder = given.partition("=")
        predictor = Predictor(folder, threads=1)
        models[name] = predictor.embed
        megabytes[name] = predictor.artifact.choose(None).bytes / 1e6
    if options.static is not None:
        from model2vec import StaticModel

        models["model2vec, 256 numbers"] = StaticModel.from_pretrained(options.static).encode
        megabytes["model2vec, 256 numbers"] = (options.static / "model.safetensors").stat().st_size / 1e6
    return models, megabytes


def milliseconds(encode: Callable[[list[str]], Any], texts: Sequence[str], batch: int) -> float:
    """Return the CPU milliseconds of one call, the mean over all texts in parts of `batch`."""
    parts = [list(texts[start : start + batch]) for start in range(0, len(texts), batch)]
    parts = parts[: max(3, 32 // batch)]
    started = time.process_time()
    for part in parts:
        encode(part)
    return (time.process_time() - started) / len(parts) * 1e3


def describe(values: Sequence[float]) -> dict[str, Any]:
    low, high = np.quantile(values, [0.25, 0.75])
    return {"median": round(statistics.median(values), 3), "quartiles": [round(low, 3), round(high, 3)]}


if __name__ == "__main__":
    main()
