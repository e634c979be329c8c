r"""What are the size, speed and loss of a deployed student, compared with its teacher?

Exports the SST-2 and MRPC students and their teachers (`understudy export --openvino`), times all forms of a
task in one run, and answers:

- sizes, medians and 95th percentiles at 1 and 32 texts, and the development scores of every form
- a `tinybert-4l-312d` student in int8 against a model of BERT-base's shape in torch fp32. The large one has
  random weights, which is enough to time it: `speedup_batch_1`, `times_smaller`
- a process that imports Predictor and labels a sentence, against one that does so with
  `transformers.pipeline`: seconds from start to answer, peak memory
- Predictor against bare onnxruntime on the same encoded batch of 32: `predictor_ratio`, without tokenisation,
  and `tokenisation_share` of a whole call

    python benchmarks/deploy.py --students students/sst2 students/mrpc --teachers teachers \
        --output-dir artifacts

`--quick` takes tiny models with random weights and writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "deploy.json"
BATCHES, LENGTHS, THREADS = (1, 32), (16, 64, 128), (1, 2)
REPEATS = 5  # of processes
PASSES = 60
FORMS = {
    "fp32 (torch)": "PyTorch",
    "fp32 (onnxruntime)": "ONNX Runtime",
    "int8 (onnxruntime)": "ONNX Runtime, int8",
    "openvino-int8 (openvino)": "OpenVINO, int8",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--students", nargs="+", type=Path, default=[Path("students/sst2"), Path("students/mrpc")]
    )
    parser.add_argument("--teachers", type=Path, default=Path("teachers"))
    parser.add_argument("--output-dir", type=Path, default=Path("artifacts"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true", help="draw the pictures of the saved results alone")
    options = parser.parse_args()
    if options.draw:
        for task, content in json.loads(RESULTS.read_text())["tasks"].items():
            picture(task, content)
        return
    with tempfile.TemporaryDirectory() as folder:
        results = quick(Path(folder)) if options.quick else measure(options, Path(folder))
    results |= {"machine": machine(), "commit": git_commit()}
    for name in ("speedup_batch_1", "times_smaller", "predictor_ratio", "tokenisation_share"):
        print(f"{name} {results[name]}", file=sys.stderr)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results))


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from understudy import bench

    tasks = {}
    for student in options.students:
        task = json.loads((student / "result.json").read_text())["task"]
        ours, theirs = (options.output_dir / f"{task}-{who}" for who in ("student", "teacher"))
        for source, target in ((student, ours), (options.teachers / task, theirs)):
            ship(source, target)
        content = bench(
            [options.teachers / task, theirs, student, ours],
            batches=BATCHES,
            lengths=(64,),
            output_dir=folder / task,
        ).content
        tasks[task] = {"models": content["models"], "rows": content["rows"], "gate": gates(ours, theirs)}
        picture(task, tasks[task])
    large = folder / "bert-base-shape"
    write_large(large, ours)
    return {"tasks": tasks, **against_large(large, ours), **start(student, ours), **overhead(ours)}


def picture(task: str, content: Mapping[str, Any]) -> None:
    """Draw score against milliseconds for the docs, with names for people."""
    from understudy.timing.picture import draw

    medians = {row["model"]: row["median_ms"] for row in content["rows"] if row["batch"] == 1}
    points = []
    for name, model in content["models"].items():
        who = "teacher" if "teacher" in name else "student"
        points.append((f"{who}, {FORMS[model['form']]}", medians[name], next(iter(model["scores"].values()))))
    metric = next(iter(next(iter(content["models"].values()))["scores"]))
    path = Path(__file__).parents[1] / "docs" / "images" / f"deploy-{task}.svg"
    draw(points, metric=metric, title=f"{task}: one text of 64 tokens on one core", path=path)


def ship(source: Path, target: Path) -> None:
    if not (target / "artifact.json").exists():
        command = [
            "understudy",
            "export",
            str(source),
            "--output-dir",
            str(target),
            "--openvino",
            "--no-speed",
        ]
        print(" ".join(command), file=sys.stderr)
        subprocess.run(command, check=True)


def gates(*artifacts: Path) -> dict[str, Any]:
    found = {one.name: json.loads((one / "artifact.json").read_text()) for one in artifacts}
    return {name: content["details"]["gate"] for name, content in found.items()}


def quick(folder: Path) -> dict[str, Any]:
    """The same questions about models that are made in seconds."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    from understudy import export

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *["a", "good", "film", "the", "bad", "one", "was", "not"]]
    backend = Tokenizer(
        models.WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=312,
        num_hidden_layers=4,
        num_attention_heads=12,
        intermediate_size=1200,
    )
    config.id2label, config.label2id = {0: "neg", 1: "pos"}, {"neg": 0, "pos": 1}
    BertForSequenceClassification(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "rows.csv").write_text("text,label\na good film,pos\na bad film,neg\n")
    export(
        folder / "model",
        output_dir=folder / "artifact",
        task="classification",
        settings={"data.dev": str(folder / "rows.csv")},
        tolerance=100.0,
        speed=False,
    )
    write_large(folder / "large", folder / "artifact", num_layers=6)
    found = against_large(folder / "large", folder / "artifact", lengths=(16,), threads=(1,))
    return found | start(folder / "model", folder / "artifact", repeats=1) | overhead(folder / "artifact")


def write_large(folder: Path, artifact: Path, num_layers: int = 12) -> None:
    """A model of BERT-base's shape, with random weights."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(artifact)
    BertForSequenceClassification(BertConfig(num_hidden_layers=num_layers)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def against_large(
    large: Path, artifact: Path, lengths: tuple[int, ...] = LENGTHS, threads: tuple[int, ...] = THREADS
) -> dict[str, Any]:
    from understudy import bench

    content = bench([large, artifact], batches=BATCHES, lengths=lengths, threads=threads).content
    rows = [{**row, "model": row["model"].removeprefix(str(artifact)).lstrip(":")} for row in content["rows"]]
    small = [row for row in rows if row["model"] == "int8"]
    models = list(content["models"].values())
    int8 = next(one for one in models if one["form"].startswith("int8"))
    by_shape = {
        f"{row['threads']} threads, {row['batch']} x {row['length']}": row["times_faster"] for row in small
    }
    if any(row["busy"] for row in small):
        raise SystemExit("the machine was busy: measure when nothing else runs.")
    # The least over lengths and threads: what may be said without naming them.
    return {
        "speedup_batch_1": min(row["times_faster"] for row in small if row["batch"] == 1),
        "speedup_batch_32": min(row["times_faster"] for row in small if row["batch"] == 32),
        "speedups": by_shape,
        "times_smaller": int8["times_smaller"],
        "large": [
            {**row, "model": "BERT-base's shape, torch fp32" if "/" in row["model"] else row["model"]}
            for row in rows
        ],
    }


TEXT = "a film one would rather forget"
# Prints the seconds since the process was asked for, and the most memory it had.
_REPORT = """
import sys, time
from understudy.timing.machine import peak_memory
print(time.time() - float(sys.argv[1]), peak_memory())
"""
_OURS = f"""
import sys
from understudy.predictor import Predictor
predict = Predictor(sys.argv[2])
predict({TEXT!r} if len(predict.artifact.fields) == 1 else ({TEXT!r}, {TEXT!r}))
assert "torch" not in sys.modules and "transformers" not in sys.modules
{_REPORT}"""
_THEIRS = f"""
import sys
from transformers import pipeline
predict = pipeline("text-classification", sys.argv[2])
predict({TEXT!r})
{_REPORT}"""


def start(model: Path, artifact: Path, repeats: int = REPEATS) -> dict[str, Any]:
    """From the start of a process to its answer, in turns."""
    found: dict[str, list[list[float]]] = {"predictor": [], "pipeline": []}
    folder = model / "student" if (model / "student").is_dir() else model
    for _ in range(repeats):
        for name, code, place in (("predictor", _OURS, artifact), ("pipeline", _THEIRS, folder)):
            command = [sys.executable, "-c", code, str(time.time()), str(place)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name].append([float(value) for value in done.stdout.split()])
    return {
        "start": {
            name: {
                "seconds": round(statistics.median(value[0] for value in values), 3),
                "peak_memory_mb": round(statistics.median(value[1] for value in values) / 1e6),
            }
            for name, values in found.items()
        }
    }


def overhead(artifact: Path) -> dict[str, Any]:
    """A call of 32 texts, its tokenisation alone, and bare onnxruntime on what it is given, in turns."""
    from understudy.artifacts.session import pad
    from understudy.predictor import Predictor

    predict = Predictor(artifact, threads=1)
    words = ["a", "good", "film", "was", "not", "the", "bad", "one"]
    # Texts of 5 to 36 words, so that they are of unlike lengths as real ones are.
    texts = [
        " ".join(words[place % 8] for place in range(number, number + 5 + number)) for number in range(32)
    ]
    fields = predict.artifact.fields
    rows: list[Any] = texts if len(fields) == 1 else [(text, text) for text in texts]
    columns = [texts] * len(fields)
    encodings = predict._reader.texts(*columns)
    arrays = pad(
        [{"input_ids": one.ids, "token_type_ids": one.type_ids} for one in encodings],
        predict.artifact.padding,
    )
    seconds: dict[str, list[float]] = {"call": [], "tokenisation": [], "bare": []}
    for _ in range(PASSES):
        for name, work in (
            ("call", lambda: predict(rows, batch_size=32)),
            ("tokenisation", lambda: predict._reader.texts(*columns)),
            ("bare", lambda: predict._session(arrays)),
        ):
            started = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - started)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "predictor_ratio": round((median["call"] - median["tokenisation"]) / median["bare"], 3),
        "tokenisation_share": round(median["tokenisation"] / median["call"], 3),
        "call_ms": {name: round(value * 1e3, 3) for name, value in median.items()},
    }


if __name__ == "__main__":
    main()
