"""Record one fixed-seed run of every method and kind, to compare two versions of the code bit for bit.

A refactor must not change a single loss or weight:

    python tools/record_runs.py write before.json     # at the old commit
    python tools/record_runs.py compare before.json   # at the new one, on the same machine

Bits depend on the processor, so a record is only valid on the machine that wrote it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "integration")]

import torch
from kinds import EXAMPLES
from safetensors.torch import load_file

import conftest
import understudy
from small_models import write_encoder

QUIET = {
    "report_to": "none",
    "disable_tqdm": True,
    "save_strategy": "no",
    "eval_strategy": "no",
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": None,
    "load_best_model_at_end": None,
    "learning_rate": 2e-3,
    "logging_steps": 5,
    "bf16": False,
}
COMMON = {"data.max_length": 64, "seed": 3}


def block(name: str, steps: int, **changed: Any) -> dict[str, Any]:
    values = {**QUIET, "max_steps": steps, **changed}
    return {f"{name}.training.{key}" if name else f"training.{key}": value for key, value in values.items()}


def hash_weights(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in sorted(load_file(file).items()):
            digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def stages_of(folder: Path) -> dict[str, Any]:
    """Losses and weights of every stage in a folder."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*.safetensors")):
        found[str(file.parent.relative_to(folder))] = hash_weights(file.parent)
    for file in sorted(folder.rglob("*.csv")):
        found[str(file.relative_to(folder))] = file.read_text("utf-8").splitlines()
    return found


def record(folder: Path) -> dict[str, Any]:
    runs: dict[str, Any] = {}
    tokenizer = conftest.tokenizer.__wrapped__()
    encoder = write_encoder(folder / "encoder", tokenizer, layers=4, heads=4)
    for kind, example in EXAMPLES.items():
        place = folder / kind
        place.mkdir()
        file = str(example.write(place))
        files = {"data.train": file, "data.dev": file, **COMMON}
        teacher = place / "teacher"
        result = understudy.finetune(
            encoder, task=example.task, output_dir=teacher, settings=files | block("", 20)
        )
        runs[f"finetune {kind}"] = {"scores": result.scores, **stages_of(teacher)}
        tiny = (
            block("intermediate", 8, eval_strategy=None)
            | block("prediction", 8)
            | {"prediction.search": None, **COMMON}
        )
        soft = block("soft_labels", 8) | {"soft_labels.search": None, **COMMON}
        patient = soft | block("patient", 8) | {"patient.search": None, "patient.projection": "shared"}
        wanted: dict[str, tuple[str, str, dict[str, Any]]] = {
            "tinybert": ("tinybert", "2l-16d", tiny),
            "soft-labels": ("soft-labels", "2l-16d", soft),
            "patient": ("patient", "2l-16d", patient),
        }
        if kind in ("classification", "squad"):
            wanted |= {
                "padded": ("tinybert", "2l-16d", tiny | {"normalization": "padded"}),
                "cut": ("tinybert", "2l-16d", tiny | {"student.init": "cut"}),
                "without hidden": ("tinybert", "2l-16d", tiny | {"intermediate.weights.hidden": 0.0}),
                "per-layer": ("tinybert", "2l-16d", tiny | {"intermediate.projection": "per-layer"}),
                "search": (
                    "tinybert",
                    "2l-16d",
                    tiny
                    | {
                        "prediction.training.learning_rate": None,
                        "prediction.search": {"learning_rate": [1e-3, 3e-3]},
                    },
                ),
            }
        for name, (method, student, settings) in wanted.items():
            output = place / name
            result = understudy.distill(
                teacher, method=method, student=student, settings=settings, output_dir=output
            )
            runs[f"{name} {kind}"] = {"scores": result.scores, **stages_of(output)}
            print(f"{name} {kind}", file=sys.stderr)
    runs |= record_general(folder, encoder)
    runs |= record_augmented(folder, encoder)
    return runs


def record_general(folder: Path, encoder: Path) -> dict[str, Any]:
    generator = random.Random(0)
    words = ["the", "cat", "dog", "runs", "sleeps", "river", "in", "city", "a", "very", "big", "film"]
    documents = [
        ". ".join(" ".join(generator.choices(words, k=generator.randrange(2, 9))) for _ in range(12))
        for _ in range(70)
    ]
    text = folder / "text.txt"
    text.write_text("\n\n".join(documents))
    runs = {}
    for pairs in (False, True):
        corpus, output = folder / f"corpus-{pairs}", folder / f"general-{pairs}"
        settings = {"corpus.max_length": 32, "corpus.held_out": 0.2, "corpus.pairs": pairs}
        understudy.corpus([text], tokenizer=encoder, output_dir=corpus, settings=settings)
        understudy.general(
            encoder,
            corpus=corpus,
            student="2l-16d",
            output_dir=output,
            settings={"seed": 3} | block("general", 12, eval_strategy=None),
        )
        runs[f"general, pairs: {pairs}"] = stages_of(output)
    return runs


def record_augmented(folder: Path, encoder: Path) -> dict[str, Any]:
    runs = {}
    for kind in ("classification", "squad", "multiple-choice", "token-classification"):
        file = next((folder / kind).glob("rows.*"))
        output = folder / kind / "augmented"
        understudy.augment(
            encoder,
            task=EXAMPLES[kind].task,
            output_dir=output,
            settings={"data.train": str(file), "augment.variants": 3, "augment.candidates": 5, "seed": 3},
        )
        import pyarrow.parquet as pq

        runs[f"augment {kind}"] = [
            repr(row)
            for part in sorted((output / "rows").iterdir())
            for row in pq.read_table(part).to_pylist()
        ]
    return runs


def main() -> None:
    action, file = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UNDERSTUDY_CACHE"] = str(Path(folder) / "cache")
        runs = json.loads(json.dumps(record(Path(folder))))
    if action == "write":
        file.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")
        print(f"{len(runs)} runs recorded in {file}")
        return
    before = json.loads(file.read_text("utf-8"))
    different = [name for name in before if before[name] != runs.get(name)]
    for name in different:
        print(f"differs: {name}")
        for key, value in before[name].items() if isinstance(before[name], dict) else ():
            if runs.get(name, {}).get(key) != value:
                print(f"  {key}: {str(value)[:200]}\n    now {str(runs.get(name, {}).get(key))[:200]}")
    print(f"{len(before) - len(different)} of {len(before)} runs are equal bit for bit")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
