r"""What would a user pick instead of distilling, and does it beat our students at the same speed?

On five GLUE tasks: TF-IDF and a static model2vec model, each with logistic regression, setfit's fine-tuned
sentence embeddings with a head, and artifacts: the teacher in int8, a small public encoder that learnt from
the labels alone, and our students. Reports the score on the development set, CPU milliseconds for one text on
one thread, megabytes, and CPU minutes of training.

    python benchmarks/alternatives.py --encoder ENCODER --sentences all-MiniLM-L6-v2 \
        --artifact "teacher, int8=artifacts/{task}-teacher" \
        --artifact "student, int8=artifacts/{task}-student"

`--artifact NAME=FOLDER` may be repeated; `{task}` is replaced by sst2, cola, mrpc, rte and stsb, and a task
whose folder is missing is left out. `--ways` and `--tasks` select a part; results of others are kept.
`--quick` takes few rows, and writes no results.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from published.processes import run_peer
from published.static import clock
from runs import git_commit, machine, students_parser
from tables import NAMES
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.evaluation.bootstrap import estimate
from understudy.evaluation.metrics import METRICS
from understudy.kinds.tasks import get_task
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "alternatives.json"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "alternatives.svg"
TASKS = ("sst2", "cola", "mrpc", "rte", "stsb")
WAYS = ("tfidf", "model2vec", "setfit", "artifacts")
TICKS = (0.3, 1, 3, 10, 30)
SETFIT = {"rows": 512, "steps": 100}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--encoder", type=Path, required=True, help="the teachers' pretrained encoder")
    parser.add_argument("--sentences", type=Path, required=True, help="a sentence-transformers folder")
    parser.add_argument("--environments", type=Path, default=Path("peers-environments"))
    parser.add_argument("--artifact", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"tasks": {}}
    for task in options.tasks:
        rows = read_rows(task, options)
        for name, found in compare(task, rows, options):
            found["score"] = score(task, found.pop("predictions"), rows["dev_labels"])
            results["tasks"].setdefault(task, {})[name] = {
                key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()
            }
            print(f"{task:5} {name:40} {found['score']['value']:.3f}", file=sys.stderr)
            results |= {"machine": machine(), "commit": git_commit()}
            if not options.quick:
                RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    if not options.quick:
        draw(results["tasks"])
    print(json.dumps(results))


def read_rows(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Texts and labels of train and dev."""
    definition = get_task(task)
    data = load_data(definition, DataSettings(source=str(options.assets / "glue")), ["train", "dev"])
    found: dict[str, Any] = {"classes": data.labels is not None, "names": data.labels}
    for part in ("train", "dev"):
        rows = data.splits[part]
        if options.quick:
            rows = rows.select(range(min(200, len(rows))))
        sides = [rows[name] for name in ("text", "text_pair") if name in rows.column_names]
        found[part] = [list(texts) for texts in zip(*sides, strict=True)]
        labels = rows["label"]
        found["labels" if part == "train" else "dev_labels"] = [
            data.labels.index(label) if data.labels and isinstance(label, str) else label for label in labels
        ]
    return found


def compare(task: str, rows: dict[str, Any], options: argparse.Namespace) -> Any:
    """Each alternative's name and figures."""
    shared = {
        "train": rows["train"],
        "dev": rows["dev"],
        "labels": rows["labels"],
        "classes": rows["classes"],
    }
    if "tfidf" in options.ways:
        yield "TF-IDF, logistic regression", count_words(rows)
    if "model2vec" in options.ways:
        for name, model in (("the encoder", options.encoder), ("MiniLM-L6", options.sentences)):
            made = options.output_dir.resolve() / f"static-{model.name}"
            job = {"what": "model2vec", "model": str(model.resolve()), "made": str(made), **shared}
            yield f"model2vec of {name}, logistic regression", run_peer("static", None, job, options)
    if "setfit" in options.ways and rows["classes"]:
        settings = {"rows": 32, "steps": 2} if options.quick else SETFIT
        job = {"what": "setfit", "model": str(options.sentences.resolve()), **shared, **settings}
        yield "setfit of MiniLM-L6, 512 rows", run_peer("setfit", None, job, options)
    if "artifacts" in options.ways:
        for given in options.artifact:
            name, _, folder = given.partition("=")
            place = Path(folder.format(task=task))
            if place.exists():
                yield name, ask_artifact(place, rows)


def count_words(rows: dict[str, Any]) -> dict[str, Any]:
    """TF-IDF of words and pairs of words with a linear model; for pairs of texts also what they share."""
    before = time.process_time()
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    words.fit([text for row in rows["train"] for text in row])

    def features(chosen: list[list[str]]) -> Any:
        from scipy.sparse import csr_matrix, hstack

        sides = [words.transform([row[side] for row in chosen]) for side in range(len(chosen[0]))]
        if len(sides) == 1:
            return sides[0]
        left, right = sides
        both = left.multiply(right)
        return hstack([abs(left - right), both, csr_matrix(both.sum(axis=1))]).tocsr()

    head = LogisticRegression(max_iter=2_000) if rows["classes"] else Ridge()
    head.fit(features(rows["train"]), rows["labels"])
    seconds = time.process_time() - before
    weights = head.coef_.size * 4 + sum(len(word) + 8 for word in words.vocabulary_)
    return {
        "predictions": head.predict(features(rows["dev"])).tolist(),
        "seconds": seconds,
        "megabytes": weights / 1e6,
        "milliseconds": clock(lambda row: head.predict(features([row])), rows["dev"]),
    }


def ask_artifact(folder: Path, rows: dict[str, Any]) -> dict[str, Any]:
    """An artifact's predictions in int8, and its time for one text."""
    predictor = Predictor(folder, model="int8", threads=1)
    texts = [tuple(row) if len(row) == 2 else row[0] for row in rows["dev"]]
    answers = predictor(texts)
    told = [
        rows["names"].index(answer["label"]) if rows["classes"] else answer["score"] for answer in answers
    ]
    return {
        "predictions": told,
        "megabytes": predictor.artifact.choose("int8").bytes / 1e6,
        "milliseconds": clock(lambda text: predictor([text]), texts),
    }


def score(task: str, predictions: list[Any], labels: list[Any]) -> dict[str, Any]:
    """The task's first metric, with its 95 % interval over rows."""
    name = get_task(task).metrics[0]
    outcomes = np.array([predictions, labels], np.float64).T
    return {"metric": name, **asdict(estimate(METRICS[name], outcomes))}


def draw(tasks: dict[str, Any]) -> None:
    """Score against milliseconds, a panel for each task."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(tasks), figsize=(3.4 * len(tasks), 3.6), squeeze=False)
    names = list(dict.fromkeys(name for found in tasks.values() for name in found))
    for panel, task in zip(panels[0], sorted(tasks, key=TASKS.index), strict=True):
        found = tasks[task]
        for place, name in enumerate(names):
            if name in found:
                one = found[name]
                panel.plot(one["milliseconds"], one["score"]["value"], "o", color=f"C{place}", label=name)
        metric = next(iter(found.values()))["score"]["metric"]
        panel.set(xscale="log", ylim=(-0.05, 1), title=NAMES[task], ylabel=metric, xlabel="CPU ms, one text")
        panel.set_xticks(TICKS, [str(tick) for tick in TICKS])
        panel.minorticks_off()
    handles = {
        label: handle
        for panel in panels[0]
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=3, fontsize=8)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
