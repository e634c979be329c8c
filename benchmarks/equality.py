"""Do a Predictor, a server and a browser give the same answers to the rows of real development sets?

A model of every kind is made from a public encoder of 3 layers in a few steps and exported to int8. Then the
same rows are predicted one by one by `Predictor`, over HTTP by `POST /predict` and by the Open Inference
Protocol (with tritonclient), and some of them in Chromium, on the page that `understudy web` writes.

    python benchmarks/equality.py --assets ../shared/assets --modules MODULES --output-dir equality

`--modules` is a folder where npm has installed playwright-core (`make browser` makes one); without it, the
browser is left out. Answers over HTTP must be equal to the last bit. In the browser, labels, answers and
entities are compared, and differences of probabilities are reported, in int8 and in fp32. `--quick` predicts
100 rows of each kind and writes no results.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient import http as triton

import understudy
from multi_label import write_rows
from understudy.artifacts.artifact import ARTIFACT
from understudy.data.readers import read_conll
from understudy.predictor import Predictor
from understudy.serve import Client
from understudy.web.site import write_site

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from pages import ask_pages
from servers import Server

RESULTS = Path(__file__).parent / "results" / "equality.json"
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--modules", type=Path)
    parser.add_argument("--output-dir", type=Path, default=Path("equality"))
    parser.add_argument("--kinds", nargs="+", default=list(MAKERS))
    parser.add_argument("--rows", type=int, default=10_000, help="rows over HTTP, at most")
    parser.add_argument("--browser-rows", type=int, default=500, help="rows in the browser, at most")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for kind in options.kinds:
        files, rows = MAKERS[kind](options.assets, options.output_dir / "rows" / kind)
        artifact = make(kind, files, options.assets, options.output_dir / kind)
        rows = random.Random(0).sample(rows, min(len(rows), 100 if options.quick else options.rows))
        figures[kind] = compare(kind, artifact, rows, options)
        print(f"{kind}: {figures[kind]}", file=sys.stderr)
    if not options.quick:
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


# Rows: a training file, a development file, and the rows to ask.
Made = tuple[dict[str, Any], list[Row]]


def tsv(path: Path, *columns: int, header: bool = True) -> list[list[str]]:
    lines = path.read_text("utf-8").splitlines()[int(header) :]
    return [[row[one] for one in columns] for row in (line.split("\t") for line in lines)]


def write(path: Path, rows: Iterable[Row]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def development_pairs(assets: Path) -> list[Row]:
    """All pairs of sentences in development sets."""
    glue = assets / "glue"
    pairs = [
        *tsv(glue / "QNLI" / "dev.tsv", 1, 2),
        *tsv(glue / "MRPC" / "dev.tsv", 3, 4),
        *tsv(glue / "RTE" / "dev.tsv", 1, 2),
        *tsv(glue / "STS-B" / "dev.tsv", 7, 8),
        *tsv(assets / "pairs" / "wikiqa" / "WikiQA-test.tsv", 1, 5),
    ]
    return [{"text": first, "text_pair": second} for first, second in pairs]


def development_texts(assets: Path) -> list[Row]:
    """All sentences in development sets, each once."""
    glue = assets / "glue"
    texts = [row[0] for row in tsv(glue / "SST-2" / "dev.tsv", 0)]
    texts += [row[0] for row in tsv(glue / "CoLA" / "dev.tsv", 3, header=False)]
    texts += [text for pair in development_pairs(assets) for text in pair.values()]
    return [{"text": text} for text in dict.fromkeys(texts)]


def classification(assets: Path, _: Path) -> Made:
    data = {name: str(assets / "glue" / "SST-2" / f"{name}.tsv") for name in ("train", "dev")}
    return {"task": "sst2", **data}, development_texts(assets)


def regression(assets: Path, _: Path) -> Made:
    data = {name: str(assets / "glue" / "STS-B" / f"{name}.tsv") for name in ("train", "dev")}
    return {"task": "stsb", **data}, development_pairs(assets)


def multi_label(assets: Path, folder: Path) -> Made:
    data = {name: str(folder / f"{name}.jsonl") for name in ("train", "dev")}
    for name, file in data.items():
        write_rows(assets / "ner" / f"{name}.conll", Path(file), None)
    return {"task": "multi-label", **data}, development_texts(assets)


def token_classification(assets: Path, _: Path) -> Made:
    data = {name: str(assets / "ner" / f"{name}.conll") for name in ("train", "dev")}
    files = (Path(data["dev"]), assets / "ner" / "test_labelled.conll")
    rows = [{"words": list(raw.values["words"])} for file in files for raw in read_conll(file, "utf-8")]
    return {"task": "conll2003", **data}, rows


def question_answering(assets: Path, folder: Path) -> Made:
    content = json.loads((assets / "qa" / "squad-dev-v1.1.json").read_text("utf-8"))
    paragraphs = [one for article in content["data"] for one in article["paragraphs"]]
    rows = [
        {"question": asked["question"], "context": one["context"]}
        for one in paragraphs
        for asked in one["qas"]
    ]
    folder.mkdir(parents=True, exist_ok=True)
    few = folder / "dev.json"  # one article, to score the model by
    few.write_text(json.dumps(content | {"data": content["data"][:1]}), "utf-8")
    return {"task": "squad", "train": str(assets / "qa" / "mlqa-dev-en.json"), "dev": str(few)}, rows


def multiple_choice(assets: Path, folder: Path) -> Made:
    """Questions of RACE: the development set has 4,887."""
    made: dict[str, list[Row]] = {"train": [], "dev": []}
    if not (folder / "dev.jsonl").exists():
        with tarfile.open(assets / "race" / "RACE.tar.xz") as archive:
            for member in archive:
                split = member.name.partition("/")[0]
                if member.isfile() and split in made and (split == "dev" or len(made["train"]) < 3_000):
                    file = archive.extractfile(member)
                    one = json.loads(file.read()) if file else {}
                    made[split] += [
                        {"context": one["article"], "question": asked, "choices": choices, "label": answer}
                        for asked, choices, answer in zip(
                            one["questions"], one["options"], map("ABCD".index, one["answers"]), strict=True
                        )
                    ]
        for split, rows in made.items():
            write(folder / f"{split}.jsonl", rows)
    rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text("utf-8").splitlines()]
    few = write(folder / "few.jsonl", rows[:100])
    for row in rows:
        del row["label"]
    return {"task": "multiple-choice", "train": str(folder / "train.jsonl"), "dev": few}, rows


MAKERS: dict[str, Callable[[Path, Path], Made]] = {
    "classification": classification,
    "regression": regression,
    "multi-label": multi_label,
    "token-classification": token_classification,
    "question-answering": question_answering,
    "multiple-choice": multiple_choice,
}


def make(kind: str, data: dict[str, Any], assets: Path, folder: Path) -> Path:
    """Fine-tune a model of a kind for a few steps and export it, unless that is done."""
    artifact = folder / "artifact"
    if artifact.exists():
        return artifact
    long = kind in {"question-answering", "multiple-choice"}
    settings = {
        "data.train": data["train"],
        "data.dev": data["dev"],
        "data.max_length": 256 if long else 128,
        "training.per_device_train_batch_size": 8 if long else 32,
        "training.gradient_accumulation_steps": 1,
        "training.max_steps": 100 if long else 200,
        "training.learning_rate": 2e-4,
        "dropout": 0.0,
    }
    encoder = assets / "bert-3l-384h-paraphrase"
    if not (folder / "model" / "result.json").exists():
        understudy.finetune(encoder, task=data["task"], output_dir=folder / "model", settings=settings)
    understudy.export(folder / "model", output_dir=artifact, tolerance=100, speed=False)
    return artifact


def compare(kind: str, artifact: Path, rows: list[Row], options: argparse.Namespace) -> dict[str, Any]:
    """Predict rows in every way, and count what differs from a Predictor in this process."""
    predict = Predictor(artifact, threads=1)
    started = time.perf_counter()
    expected = [predict(row) for row in rows]
    figures: dict[str, Any] = {"rows": len(rows), "ms": 1000 * (time.perf_counter() - started) / len(rows)}
    with Server(options.output_dir, f"{kind}={artifact}", "--workers", "1") as server:
        with Client(server.url, model=kind) as client:
            figures["predict_differs"] = sum(
                client(row) != one for row, one in zip(rows, expected, strict=True)
            )
        caller = triton.InferenceServerClient(server.url.removeprefix("http://"))
        outputs = caller.get_model_metadata(kind)["outputs"]
        figures["infer_differs"] = sum(
            infer(caller, kind, row, outputs) != as_tensors(one, outputs)
            for row, one in zip(rows, expected, strict=True)
        )
    if options.modules:
        asked = rows[: 20 if options.quick else options.browser_rows]
        figures["browser"] = {
            form: browse(kind, artifact, form, asked, options.modules, options.output_dir / "site")
            for form in ("int8", "fp32")
        }
    return figures


def infer(caller: Any, kind: str, row: Row, outputs: list[dict[str, str]]) -> list[Any]:
    """Ask for one row by the Open Inference Protocol, and return its outputs."""
    inputs = []
    for name, value in row.items():
        tensor = triton.InferInput(name, [1], "BYTES")
        text = json.dumps(value) if isinstance(value, list) else value
        tensor.set_data_from_numpy(np.array([text], dtype=object))
        inputs.append(tensor)
    answer = caller.infer(kind, inputs)
    found = [answer.as_numpy(one["name"])[0] for one in outputs]
    return [one.decode() if isinstance(one, bytes) else np.asarray(one).tolist() for one in found]


def as_tensors(prediction: Row, outputs: list[dict[str, str]]) -> list[Any]:
    """What a prediction looks like in the tensors of the Open Inference Protocol."""
    made = []
    for one in outputs:
        value = prediction.get(one["name"], False)
        if one["datatype"] == "FP32":
            numbers = list(value.values()) if isinstance(value, dict) else value
            made.append(np.asarray(numbers, np.float32).tolist())
        else:
            made.append(json.dumps(value) if isinstance(value, list | dict) else value)
    return made


def browse(
    kind: str, artifact: Path, form: str, rows: list[Row], modules: Path, site: Path
) -> dict[str, Any]:
    """Ask the page of an artifact's int8 or fp32 form in Chromium, and compare it with a Predictor."""
    chosen = site / f"{kind}-{form}"
    if not chosen.exists():
        shutil.copytree(artifact, chosen)
        content = json.loads((chosen / ARTIFACT).read_text())
        (chosen / ARTIFACT).write_text(json.dumps(content | {"default": form}))
    predict = Predictor(chosen, threads=1)
    expected = [predict(row) for row in rows]
    write_site(chosen, site / kind)
    answers = ask_pages(site, {kind: rows}, modules, pictures=str(site))[kind]
    pairs = list(zip(expected, answers["predictions"], strict=True))
    differences = [difference(one, other) for one, other in pairs]
    return {
        "rows": len(rows),
        "answers_differ": sum(words_of(one) != words_of(other) for one, other in pairs),
        "share_within_0.001": float(np.mean(np.array(differences) <= 1e-3)),
        "median_difference": float(np.median(differences)),
        "largest_difference": max(differences),
        "ms": answers["milliseconds"],
    }


def words_of(prediction: Any) -> Any:
    """A prediction without its numbers, except which choice it is: JavaScript counts places differently."""

    def is_number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    if isinstance(prediction, dict):
        return {
            name: words_of(value)
            for name, value in prediction.items()
            if name == "choice" or not is_number(value)
        }
    if isinstance(prediction, list):
        return [words_of(one) for one in prediction if not is_number(one)]
    return prediction


def difference(one: Any, other: Any) -> float:
    """The largest difference of a score or probability in two predictions with the same labels."""
    if isinstance(one, float):
        return abs(one - other)
    if isinstance(one, dict):
        return max(
            (difference(value, other[name]) for name, value in one.items() if name in other), default=0
        )
    if isinstance(one, list):
        return max(map(difference, one, other), default=0)
    return 0.0


if __name__ == "__main__":
    main()
