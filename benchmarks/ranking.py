"""How much of a cross-encoder's ranking does a smaller one keep?

A teacher is fine-tuned on triples: questions of QNLI's development set and of WikiQA's training set, with
a right sentence and a wrong one (WikiQA: of the same page; QNLI: the most similar one by TF-IDF). Students
are cut from it and learn from the same triples without labels, in two ways: `cut` (no training) and `layers`
(the teacher's layers, then its scores and margins). All are exported and scored from their files:

- WikiQA, test set: each question's sentences are ordered;
- NFCorpus (test) and SciFact (validation), some queries: the top 100 documents of an embedding model are
  reranked, documents cut at 128 tokens.

    python benchmarks/ranking.py ENCODER --embeddings MODEL --assets ../shared/assets --output-dir students

`--embeddings` is an exported embedding model. Runs that are already in the output folder are not repeated.
`--quick` makes a few steps and writes no results.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.metrics
from sklearn.feature_extraction.text import TfidfVectorizer

from beir import read_beir, read_jsonl
from runs import finish, settings_options
from understudy.evaluation.bootstrap import estimate, estimate_difference
from understudy.evaluation.metrics import Outcomes
from understudy.evaluation.ranking import group_rows, mrr_at_10, ndcg_at_10, rank_outcomes
from understudy.evaluation.vectors import unit
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "ranking.json"
WAYS = ("layers", "cut")
RETRIEVAL = {"nfcorpus": "test", "scifact": "validation"}
NEGATIVES = 4  # of a question's own page
CANDIDATES = 100
Rows = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--students", nargs="+", default=["4l-312d"])
    parser.add_argument("--queries", type=int, default=50, help="of each set of documents")
    parser.add_argument("--teacher-steps", type=int, default=200)
    parser.add_argument("--layer-steps", type=int, default=250)
    parser.add_argument("--score-steps", type=int, default=300)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.teacher_steps = options.layer_steps = options.score_steps = 2
        options.queries = 2
    files = write_files(options.assets, options.output_dir)
    teacher = options.output_dir / "ranking-teacher"
    taught = finish(teacher_command(files, teacher, options), teacher)
    candidates = find_candidates(options) if options.embeddings else {}
    expected = judge(export(teacher, files, options), "fp32", files, candidates)
    results: dict[str, Any] = {"teacher": taught | {"fp32": described(expected, expected)}}
    for name, rows in candidates.items():
        results[f"{name}-first-order"] = first_order(rows)
    for shape in options.students:
        for way in WAYS:
            output = options.output_dir / f"ranking-{shape}-{way}"
            record = finish(student_command(shape, way, teacher, files, output, options), output, describe)
            artifact = export(output, files, options)
            found = {
                form: described(judge(artifact, form, files, candidates), expected)
                for form in ("fp32", "int8")
            }
            results[f"{shape}-{way}"] = record | found
            if not options.quick:
                RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
            print(shape, way, json.dumps(found["int8"]["kept_percent"]))


def teacher_command(files: Mapping[str, Path], output: Path, options: argparse.Namespace) -> list[str]:
    settings = {
        "dropout": 0.1,
        "training.max_steps": options.teacher_steps,
        "training.per_device_train_batch_size": 16,
        "training.learning_rate": 1e-4,
        "data.max_length": 128,
    }
    command = ["understudy", "finetune", str(options.encoder), "--task", "ranking"]
    command += ["--train", str(files["triples"]), "--dev", str(files["dev"])]
    return [*command, *settings_options(settings), "--output-dir", str(output)]


def student_command(
    shape: str, way: str, teacher: Path, files: Mapping[str, Path], output: Path, options: argparse.Namespace
) -> list[str]:
    trained = way != "cut"
    settings: dict[str, Any] = {
        "data.max_length": 128,
        "prediction.training.per_device_train_batch_size": 32,
        "prediction.training.max_steps": options.score_steps if trained else 1,
        "prediction.training.learning_rate": 3e-4 if trained else 0.0,
    }
    settings |= (
        {
            "intermediate.training.max_steps": options.layer_steps,
            "intermediate.training.learning_rate": 5e-4,
        }
        if trained
        else {"intermediate": None}
    )
    command = ["understudy", "distill", str(teacher), "--recipe", "tinybert-ranking", "--student", shape]
    command += ["--unlabelled", str(files["triples"]), "--dev", str(files["dev"])]
    return [*command, *settings_options(settings), "--output-dir", str(output)]


def describe(result: dict[str, Any]) -> dict[str, Any]:
    stages = result["stages"].items()
    return {
        "parameters": result["parameters"],
        "steps": {name: stage["steps"] for name, stage in stages},
        "seconds": {name: stage["seconds"]["training"] for name, stage in stages},
    }


def export(model: Path, files: Mapping[str, Path], options: argparse.Namespace) -> Path:
    """Export a model to fp32 and int8, unless that is done."""
    output: Path = options.output_dir / f"{model.name}-artifact"
    if not output.exists():
        command = ["understudy", "export", str(model), "--no-speed", "--output-dir", str(output)]
        command += ["--set", f"data.dev={files['dev']}", "--tolerance", "100"]
        subprocess.run(command, check=True)
    return output


def judge(
    artifact: Path, form: str, files: Mapping[str, Path], candidates: Mapping[str, Rows]
) -> dict[str, Any]:
    """Return the outcomes of each query by set, and the file's size."""
    predictor = Predictor(artifact, model=form, threads=1)
    dev = list(read_jsonl(files["dev"]))
    scores = np.array([one["score"] for one in predictor([(row["query"], row["passage"]) for row in dev])])
    labels = np.array([row["label"] for row in dev], np.float64)
    outcomes = {"wikiqa": rank_outcomes([row["query"] for row in dev], scores, labels)}
    for name, queries in candidates.items():
        found = []
        for query in queries:
            places = predictor.rank(query["text"], query["passages"], batch_size=50)
            scored = np.zeros(len(query["passages"]))
            for place, score in places:
                scored[place] = score
            found.append(_ndcg(query, scored))
        outcomes[name] = np.array(found)[:, None]
    return {"outcomes": outcomes, "bytes": predictor.artifact.choose(form).bytes}


def _ndcg(query: Mapping[str, Any], scores: np.ndarray) -> float:
    """Return nDCG@10 of a query's candidates; relevant documents that are not among them count as missed."""
    gains, ideal = np.array(query["gains"]), np.array(query["all_gains"])
    if not gains.any():
        return 0.0
    best = float(sklearn.metrics.dcg_score([gains], [gains], k=10))
    whole = float(np.sum(np.sort(ideal)[::-1][:10] / np.log2(np.arange(2, 2 + min(10, len(ideal))))))
    return float(sklearn.metrics.ndcg_score([gains], [scores], k=10)) * best / whole


def first_order(queries: Rows) -> dict[str, Any]:
    """Return nDCG@10 of the order in which the candidates were found."""
    found = [_ndcg(query, -np.arange(len(query["passages"]), dtype=np.float64)) for query in queries]
    return {"ndcg_at_10": asdict(estimate(_mean, np.array(found)[:, None]))}


def _mean(outcomes: Outcomes) -> float:
    return float(outcomes.mean())


def described(found: Mapping[str, Any], teacher: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores with intervals, the differences from the teacher in fp32, and the share kept of it."""
    metrics = {
        "wikiqa_ndcg_at_10": ("wikiqa", ndcg_at_10),
        "wikiqa_mrr_at_10": ("wikiqa", mrr_at_10),
        **{f"{name}_ndcg_at_10": (name, _mean) for name in found["outcomes"] if name != "wikiqa"},
    }
    pairs = {
        name: (function, found["outcomes"][rows], teacher["outcomes"][rows])
        for name, (rows, function) in metrics.items()
    }
    return {
        "megabytes": round(found["bytes"] / 1e6, 1),
        "scores": {name: asdict(estimate(function, own)) for name, (function, own, _) in pairs.items()},
        "difference": {name: asdict(estimate_difference(*pair)) for name, pair in pairs.items()},
        "kept_percent": {
            name: round(100 * function(own) / function(whole), 2)
            for name, (function, own, whole) in pairs.items()
        },
    }


def find_candidates(options: argparse.Namespace) -> dict[str, Rows]:
    """Return the first 100 documents of some queries of each set, by an embedding model."""
    file = options.output_dir / f"ranking-candidates-{options.queries}.json"
    if file.exists():
        known: dict[str, Rows] = json.loads(file.read_text("utf-8"))
        return known
    predictor = Predictor(options.embeddings, threads=1)
    found: dict[str, Rows] = {}
    for name, split in RETRIEVAL.items():
        documents, queries, relevant = read_beir(options.assets / "retrieval" / name, split)
        chosen = np.random.default_rng(1).permutation(sorted(relevant))[: options.queries]
        names = list(documents)
        vectors = unit(predictor.embed(list(documents.values()), batch_size=64))
        found[name] = []
        for query in map(str, chosen):
            similar = vectors @ unit(predictor.embed([queries[query]]))[0]
            first = [names[place] for place in np.argsort(-similar, kind="stable")[:CANDIDATES]]
            found[name].append(
                {
                    "text": queries[query],
                    "passages": [documents[one] for one in first],
                    "gains": [relevant[query].get(one, 0.0) for one in first],
                    "all_gains": list(relevant[query].values()),
                }
            )
    file.write_text(json.dumps(found), "utf-8")
    return found


def write_files(assets: Path, folder: Path) -> dict[str, Path]:
    """Write triples to learn from, shuffled, and the questions of WikiQA's test set that can be scored."""
    files = {name: folder / f"ranking-{name}.jsonl" for name in ("triples", "dev")}
    if all(file.exists() for file in files.values()):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    triples = [*wikiqa_triples(assets), *qnli_triples(assets)]
    order = np.random.default_rng(1).permutation(len(triples))
    _write(files["triples"], [triples[place] for place in order])
    dev = wikiqa(assets, "test")
    scored = group_rows([row["query"] for row in dev], np.array([row["label"] for row in dev], np.float64))
    _write(files["dev"], [dev[place] for group in scored for place in group])
    return files


def wikiqa(assets: Path, split: str) -> Rows:
    """Return the questions of a split with their sentences."""
    with (assets / "pairs" / "wikiqa" / f"WikiQA-{split}.tsv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    # The sentence and its label are the last two columns; some rows have two more before them.
    rows = [{"query": line[1], "passage": line[-2], "label": int(line[-1])} for line in lines]
    return [row for row in rows if row["query"].strip() and row["passage"].strip()]


def wikiqa_triples(assets: Path) -> Iterator[dict[str, str]]:
    """Yield each right sentence of a question with some wrong ones of the same page."""
    rows: dict[str, Rows] = {}
    for row in wikiqa(assets, "train"):
        rows.setdefault(row["query"], []).append(row)
    for query, group in rows.items():
        wrong = [row["passage"] for row in group if not row["label"]]
        for row in group:
            for negative in wrong[:NEGATIVES] if row["label"] else ():
                yield {"query": query, "positive": row["passage"], "negative": negative}


def qnli_triples(assets: Path) -> Iterator[dict[str, str]]:
    """Yield each question that has its sentence, with two other sentences that have the same words."""
    lines = (assets / "glue" / "QNLI" / "dev.tsv").read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    sentences = list(dict.fromkeys(row[2] for row in rows))
    places = {text: place for place, text in enumerate(sentences)}
    right = [row for row in rows if row[3] == "entailment"]
    vectors = TfidfVectorizer(sublinear_tf=True).fit(sentences)
    similar = vectors.transform([row[1] for row in right]) @ vectors.transform(sentences).T
    for row, scores in zip(right, similar.toarray(), strict=True):
        scores[places[row[2]]] = -1.0
        for place in np.argsort(-scores)[:2]:
            yield {"query": row[1], "positive": row[2], "negative": sentences[place]}


def _write(file: Path, rows: Rows | list[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main()
