"""How much of an embedding model's quality in similarity and search does a smaller one keep?

A student is cut from the teacher and learns from sentences of Wikipedia and the training texts of GLUE, in
three ways: `cut` (no training), `layers` (the teacher's layers, then its vectors), `vectors` (its vectors
alone, for as many steps). Teacher and students are exported and scored from their files:

- STS-B and MRPC, development sets: Spearman of cosines, average precision of paraphrases;
- QNLI, development set: each question must find its sentence among all 5,463;
- NFCorpus (test) and SciFact (validation), teacher in fp32 and students in int8: nDCG@10 and recall@100,
  documents cut at 128 tokens;
- `closeness`: mean cosine to the teacher, and the share of its ten nearest sentences that are kept (QNLI).

    python benchmarks/embeddings.py MODEL --assets ../shared/assets --output-dir students

Runs that are already in the output folder are not repeated. `--quick` makes a few steps and writes no
results.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import sklearn.metrics
from numpy.typing import NDArray

from beir import read_beir
from runs import finish, settings_options
from understudy.evaluation.bootstrap import estimate, estimate_difference
from understudy.evaluation.metrics import Outcomes
from understudy.evaluation.vectors import compare_vectors, cosines, find_vector_metric, ranks, unit
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "embeddings.json"
WAYS = ("cut", "layers", "vectors")
HEADLINE = ("4l-312d", "layers")
GLUE_TEXTS = {"CoLA": (3,), "SST-2": (0,), "MRPC": (3, 4), "RTE": (1, 2), "STS-B": (7, 8)}
RETRIEVAL = {"nfcorpus": "test", "scifact": "validation"}
Vectors = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--students", nargs="+", default=["4l-312d", "3l-384d"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--layer-steps", type=int, default=800)
    parser.add_argument("--vector-steps", type=int, default=1200)
    parser.add_argument("--documents", action="store_true", help="also NFCorpus and SciFact, which take long")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.layer_steps = options.vector_steps = 2
    texts = write_texts(options.assets, options.output_dir / "embedding-texts.txt")
    pairs = {name: read_pairs(options.assets, name) for name in ("STS-B", "MRPC", "QNLI")}
    teacher = export(options.model, options, f"{options.model.name}-teacher")
    expected = judge(teacher, "fp32", pairs, options, documents=options.documents)
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    name = options.model.name
    results[f"{name}-teacher"] = {
        "fp32": described(expected, expected),
        "int8": described(judge(teacher, "int8", pairs, options, documents=False), expected),
    }
    for shape in options.students:
        for way in options.ways:
            folder, record = distil(shape, way, texts, options)
            artifact = export(folder, options, f"{folder.name}-artifact")
            found = {
                form: described(judge(artifact, form, pairs, options, documents=documents), expected)
                for form, documents in (("fp32", False), ("int8", options.documents))
            }
            results[f"{name}-{shape}-{way}"] = record | found
            if (shape, way) == HEADLINE:
                kept = found["int8"]["kept_percent"]
                results["kept_spearman_percent"] = kept["stsb_spearman"]
                results["kept_mrr_percent"] = kept["qnli_mrr_at_10"]
            if not options.quick:
                RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
            print(shape, way, json.dumps(found["int8"]["kept_percent"]))


def distil(shape: str, way: str, texts: Path, options: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """Make a student, or find it; return its folder and record."""
    output = options.output_dir / f"embeddings-{options.model.name}-{shape}-{way}"
    vector_steps = options.vector_steps + (options.layer_steps if way == "vectors" else 0)
    settings: dict[str, Any] = {
        "data.dev": str(options.assets / "glue" / "STS-B" / "dev.tsv"),
        "prediction.training.max_steps": 1 if way == "cut" else vector_steps,
        "prediction.training.learning_rate": 0.0 if way == "cut" else 3e-4,
    }
    settings |= (
        {"intermediate.training.max_steps": options.layer_steps}
        if way == "layers"
        else {"intermediate": None}
    )
    command = ["understudy", "distill", str(options.model), "--recipe", "desk-embedding", "--student", shape]
    command += ["--unlabelled", str(texts), *settings_options(settings), "--output-dir", str(output)]

    def describe(result: dict[str, Any]) -> dict[str, Any]:
        stages = result["stages"].items()
        return {
            "parameters": result["parameters"],
            "steps": {name: stage["steps"] for name, stage in stages},
            "seconds": {name: stage["seconds"]["training"] for name, stage in stages},
        }

    return output, finish(command, output, describe)


def export(model: Path, options: argparse.Namespace, name: str) -> Path:
    """Export a model to fp32 and int8, unless that is done."""
    output: Path = options.output_dir / name
    if not output.exists():
        command = ["understudy", "export", str(model), "--no-speed", "--output-dir", str(output)]
        dev = options.assets / "glue" / "STS-B" / "dev.tsv"
        command += ["--task", "embedding", "--set", f"data.dev={dev}", "--tolerance", "100"]
        subprocess.run(command, check=True)
    return output


def judge(
    artifact: Path, form: str, pairs: Mapping[str, Any], options: argparse.Namespace, *, documents: bool
) -> dict[str, Any]:
    """Return the outcomes of each row by metric, the vectors of QNLI's sentences, and the file's size."""
    saved = artifact / f"judged-{form}{'-documents' if documents else ''}.pickle"
    if saved.exists():
        known: dict[str, Any] = pickle.loads(saved.read_bytes())
        return known
    predictor = Predictor(artifact, model=form, threads=1)
    outcomes: dict[str, Outcomes] = {}
    sentences: Vectors = np.zeros((0, 0), np.float32)
    for name, (first, second, labels) in pairs.items():
        vectors = [predictor.embed(side, batch_size=64) for side in (first, second)]
        places = ranks(*vectors, second) if name == "QNLI" else np.full(len(labels), np.nan)
        outcomes[name] = np.stack([cosines(*vectors), labels, places], axis=1)
        sentences = vectors[1] if name == "QNLI" else sentences
    sets = RETRIEVAL if documents else {}
    searched = {
        name: search(predictor, options.assets / "retrieval" / name, split) for name, split in sets.items()
    }
    size = predictor.artifact.choose(form).bytes
    found = {"outcomes": outcomes, "sentences": sentences, "documents": searched, "bytes": size}
    saved.write_bytes(pickle.dumps(found))
    return found


METRICS = {
    "stsb_spearman": ("STS-B", "spearman"),
    "mrpc_average_precision": ("MRPC", "average_precision"),
    "qnli_mrr_at_10": ("QNLI", "mrr_at_10"),
    "qnli_ndcg_at_10": ("QNLI", "ndcg_at_10"),
    "qnli_recall_at_100": ("QNLI", "recall_at_100"),
}


def described(found: Mapping[str, Any], teacher: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores with intervals, the differences from the teacher in fp32, and the share kept of it."""
    scores, differences = {}, {}
    for name, (rows, metric) in METRICS.items():
        function = find_vector_metric(metric)
        scores[name] = asdict(estimate(function, found["outcomes"][rows]))
        pair = (found["outcomes"][rows], teacher["outcomes"][rows])
        differences[name] = asdict(estimate_difference(function, *pair))
    expected = {
        name: find_vector_metric(metric)(teacher["outcomes"][rows])
        for name, (rows, metric) in METRICS.items()
    }
    for name, outcomes in found["documents"].items():
        for column, metric in enumerate(("ndcg_at_10", "recall_at_100")):
            key = f"{name}_{metric}"
            values = outcomes[:, column : column + 1]
            scores[key] = asdict(estimate(_mean, values))
            whole = teacher["documents"][name][:, column : column + 1]
            differences[key] = asdict(estimate_difference(_mean, values, whole))
            expected[key] = _mean(whole)
    return {
        "megabytes": round(found["bytes"] / 1e6, 1),
        "scores": scores,
        "difference": differences,
        "kept_percent": {name: round(100 * scores[name]["value"] / expected[name], 2) for name in scores},
        "closeness": compare_vectors(found["sentences"], teacher["sentences"]),
    }


def _mean(outcomes: Outcomes) -> float:
    return float(outcomes.mean())


def search(predictor: Predictor, folder: Path, split: str) -> Outcomes:
    """Return nDCG@10 and recall@100 of each query of a set in BEIR's layout."""
    documents, queries, relevant = read_beir(folder, split)
    names = list(documents)
    vectors = unit(predictor.embed(list(documents.values()), batch_size=64))
    found = []
    for query, right in relevant.items():
        similar = vectors @ unit(predictor.embed([queries[query]]))[0]
        gains = np.array([right.get(name, 0.0) for name in names])
        best = np.argsort(-similar, kind="stable")[:100]
        recall = (gains[best] > 0).sum() / max(1, (gains > 0).sum())
        found.append((sklearn.metrics.ndcg_score([gains], [similar], k=10), recall))
    return np.array(found)


def write_texts(assets: Path, file: Path) -> Path:
    """Write sentences of two shards of Wikipedia and the training texts of GLUE, shuffled, one a line."""
    if file.exists():
        return file
    texts: list[str] = []
    for shard in sorted((assets / "wiki").glob("train-*.parquet"))[:2]:
        for document in pq.read_table(shard, columns=["text"])["text"].to_pylist()[::6]:
            for paragraph in document.split("\n"):
                sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)
                texts += [" ".join(one.split()) for one in sentences if 30 < len(one) < 400]
    for task, columns in GLUE_TEXTS.items():
        rows = _tsv(assets / "glue" / task / "train.tsv", header=task != "CoLA")
        texts += [row[column] for row in rows for column in columns if len(row) > column]
    texts = [one for one in dict.fromkeys(texts) if one.strip()]
    random.Random(1).shuffle(texts)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(texts) + "\n", "utf-8")
    return file


def read_pairs(assets: Path, name: str) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """Return the first and second texts of a development set, and their scores."""
    first, second, label = {"STS-B": (7, 8, 9), "MRPC": (3, 4, 0), "QNLI": (1, 2, 3)}[name]
    rows = _tsv(assets / "glue" / name / "dev.tsv", header=True)
    scores = [float(row[label] == "entailment") if name == "QNLI" else float(row[label]) for row in rows]
    return [row[first] for row in rows], [row[second] for row in rows], np.array(scores)


def _tsv(path: Path, *, header: bool) -> Sequence[list[str]]:
    lines = path.read_text("utf-8").splitlines()
    return [line.split("\t") for line in (lines[1:] if header else lines)]


if __name__ == "__main__":
    main()
