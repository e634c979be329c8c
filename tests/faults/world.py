"""A small world in which every command that writes has something to do: models, rows, texts, a corpus."""

from __future__ import annotations

import csv
import fnmatch
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import understudy
from small_models import make_tokenizer, write_encoder

WORDS = [
    "the",
    "a",
    "film",
    "was",
    "good",
    "bad",
    "great",
    "awful",
    "very",
    "not",
    "cat",
    "dog",
    "river",
    "city",
    "movie",
    "runs",
    "sleeps",
    "in",
    "is",
    ".",
]
TRAINING = {
    "report_to": "none",
    "disable_tqdm": True,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "load_best_model_at_end": False,
    "eval_strategy": "no",
    "save_strategy": "steps",
    "save_steps": 3,
    "save_total_limit": 2,
    "learning_rate": 2e-3,
    "logging_steps": 2,
    "max_steps": 10,
}
# Dropout, so that a resumed run is only equal if the random state is restored.
COMMON = {"data.max_length": 32, "dropout": 0.2}


@dataclass(frozen=True)
class World:
    """Folders and files that the commands read."""

    folder: Path

    @property
    def encoder(self) -> Path:
        return self.folder / "encoder"

    @property
    def rows(self) -> Path:
        return self.folder / "rows.csv"

    @property
    def texts(self) -> Path:
        return self.folder / "texts"

    @property
    def teacher(self) -> Path:
        return self.folder / "teacher"

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    @property
    def artifact(self) -> Path:
        return self.folder / "artifact"


def make_world(folder: Path) -> World:
    """Make everything that the commands read, once."""
    folder.mkdir(parents=True)
    world = World(folder)
    write_encoder(world.encoder, make_tokenizer(WORDS, max_length=64), width=16)
    generator = random.Random(0)
    with world.rows.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["text", "label"])
        for number in range(48):
            words = generator.choices(WORDS[6:-1], k=generator.randint(2, 6))
            label = ("good", "bad")[number % 2]
            lines.writerow([f"the {label} {' '.join(words)}", label])
    world.texts.mkdir()
    for number in range(3):
        documents = [
            ". ".join(" ".join(generator.choices(WORDS[:-1], k=generator.randint(3, 8))) for _ in range(4))
            + "."
            for _ in range(20)
        ]
        content = "".join(json.dumps({"text": text}) + "\n" for text in documents)
        (world.texts / f"{number}.jsonl").write_text(content, "utf-8")
    understudy.finetune(
        world.encoder,
        task="classification",
        output_dir=world.teacher,
        settings=_files(world) | _block("training", save_strategy="no"),
    )
    understudy.corpus([world.texts], tokenizer=world.encoder, output_dir=world.corpus, settings=dict(_CORPUS))
    understudy.export(world.teacher, output_dir=world.artifact, int8=False, tolerance=100.0, speed=False)
    return world


def _files(world: World) -> dict[str, Any]:
    return {"data.train": str(world.rows), "data.dev": str(world.rows), **COMMON}


def _block(name: str, **changed: Any) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in {**TRAINING, **changed}.items()}


_CORPUS = {"corpus.max_length": 16, "corpus.held_out": 0.2, "corpus.shard_megabytes": 0.002}


def _options(settings: Mapping[str, Any]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def _finetune(world: World, output: Path) -> list[str]:
    settings = _options(_files(world) | _block("training"))
    start = ["finetune", str(world.encoder), "--task", "classification"]
    return [*start, *settings, "--output-dir", str(output)]


def _distill(method: str, *stages: str) -> Callable[[World, Path], list[str]]:
    def arguments(world: World, output: Path) -> list[str]:
        settings = _files(world) | {f"{stage}.search": None for stage in stages if stage != "intermediate"}
        for stage in stages:
            settings |= _block(f"{stage}.training")
        settings |= {"intermediate.training.eval_strategy": None} if "intermediate" in stages else {}
        patient = {"patient.layer_map": "uniform", "patient.projection": "shared"}
        settings |= patient if "patient" in stages else {}
        start = ["distill", str(world.teacher), "--method", method, "--student", "1l-8d"]
        return [
            *start,
            "--set",
            "student.num_attention_heads=2",
            *_options(settings),
            "--output-dir",
            str(output),
        ]

    return arguments


def _general(world: World, output: Path) -> list[str]:
    settings = _options({"dropout": 0.2} | _block("general.training"))
    start = ["general", str(world.encoder), "--corpus", str(world.corpus), "--student", "1l-8d"]
    return [*start, "--set", "student.num_attention_heads=2", *settings, "--output-dir", str(output)]


def _corpus(world: World, output: Path) -> list[str]:
    return [
        "corpus",
        str(world.texts),
        "--tokenizer",
        str(world.encoder),
        *_options(_CORPUS),
        "--output-dir",
        str(output),
    ]


def _augment(world: World, output: Path) -> list[str]:
    settings = {
        "data.train": str(world.rows),
        "augment.variants": 3,
        "augment.candidates": 4,
        "augment.max_length": 32,
    }
    start = ["augment", str(world.encoder), "--task", "classification"]
    return [*start, *_options(settings), "--output-dir", str(output)]


def _mine(world: World, output: Path) -> list[str]:
    settings = {"mine.neighbours": 3, "mine.shard_megabytes": 0.002, "mine.duplicate": 0.999}
    start = ["mine", str(world.texts), "--teacher", str(world.teacher)]
    return [*start, *_options(settings), "--output-dir", str(output)]


def _export(world: World, output: Path) -> list[str]:
    start = ["export", str(world.teacher), "--no-speed", "--tolerance", "100"]
    return [*start, "--output-dir", str(output)]


def _export_again(world: World, output: Path) -> list[str]:
    return [*_export(world, output), "--overwrite"]


def _evaluate(world: World, output: Path) -> list[str]:
    return ["evaluate", str(world.teacher), "--output-dir", str(output)]


def _predict(world: World, output: Path) -> list[str]:
    return [
        "predict",
        str(world.artifact),
        "--file",
        str(world.rows),
        "--output",
        str(output / "labelled.csv"),
    ]


def _run(world: World, output: Path) -> list[str]:
    settings = _files(world) | _block("finetune.training", max_steps=4)
    settings |= _block("intermediate.training", max_steps=4, eval_strategy=None)
    settings |= _block("prediction.training", max_steps=4)
    settings |= {"task": "classification", "student.num_attention_heads": 2, "export.tolerance": 100.0}
    settings |= {"export.teacher_int8": False, "prediction.search": None}
    start = ["run", str(world.encoder), "--student", "1l-8d"]
    return [*start, *_options(settings), "--output-dir", str(output)]


def _ablate(world: World, output: Path) -> list[str]:
    settings = _files(world) | {"student.num_attention_heads": 2, "prediction.search": None}
    settings |= _block("intermediate.training", max_steps=4, eval_strategy=None)
    settings |= _block("prediction.training", max_steps=4)
    settings |= {"student.shape": "1l-8d"}
    start = ["ablate", str(world.teacher), "--table", "maps", "--seeds", "1"]
    return [*start, *_options(settings), "--output-dir", str(output)]


def _bench(world: World, output: Path) -> list[str]:
    start = ["bench", str(world.artifact), str(world.teacher), "--batch", "1", "--lengths", "8"]
    return [*start, "--output-dir", str(output)]


def _folds(world: World, output: Path) -> list[str]:
    return [*_finetune(world, output), "--set", "folds=2"]


def _with_texts(world: World, output: Path) -> list[str]:
    unlabelled = ["--unlabelled", str(world.texts), "--set", "data.labelled_share=0.5"]
    return [*_distill("tinybert", "intermediate", "prediction")(world, output), *unlabelled]


def _two_students(world: World, output: Path) -> list[str]:
    made = _distill("tinybert", "intermediate", "prediction")(world, output)
    made[made.index("1l-8d")] = "1l-8d,1l-16d"
    heads = made.index("student.num_attention_heads=2")  # is one student's
    return made[: heads - 1] + made[heads + 1 :]


def small_shards() -> None:
    """Make shards of a few rows, so that a run has several."""
    from understudy.distillation import teacher_cache
    from understudy.stages import augment

    augment.ROWS_PER_SHARD = 10
    teacher_cache.ROWS_PER_SHARD = 16


@dataclass(frozen=True)
class Workload:
    """A command that writes to an output folder.

    Attributes:
        arguments: the command line for a world and an output folder.
        before: makes the folder something else than new.
        outputs: folders in the output folder that are finished one by one.
        num_processes: as many as `torchrun --nproc-per-node` starts.
        timed: patterns of files with measured times, which are never equal.
    """

    arguments: Callable[[World, Path], list[str]]
    before: Callable[[World, Path], None] = lambda world, output: None
    outputs: tuple[str, ...] = ("",)
    num_processes: int = 1
    timed: tuple[str, ...] = ()


def _old_artifact(world: World, output: Path) -> None:
    import shutil

    shutil.copytree(world.artifact, output)
    (output / "NOTES.txt").write_text("not ours", "utf-8")


WORKLOADS: dict[str, Workload] = {
    "finetune": Workload(_finetune),
    "finetune folds": Workload(_folds),
    "distill tinybert": Workload(_distill("tinybert", "intermediate", "prediction")),
    "distill patient": Workload(_distill("patient", "soft_labels", "patient")),
    "distill soft-labels": Workload(_distill("soft-labels", "soft_labels")),
    "distill joint": Workload(_distill("joint", "joint")),
    "distill unlabelled": Workload(_with_texts),
    "distill two students": Workload(_two_students, outputs=("1l-8d", "1l-16d")),
    "distill joint, 2 ranks": Workload(_distill("joint", "joint"), num_processes=2),
    "general": Workload(_general),
    "general, 2 ranks": Workload(_general, num_processes=2),
    "corpus": Workload(_corpus),
    "augment": Workload(_augment),
    "mine": Workload(_mine),
    "export": Workload(_export),
    "export --overwrite": Workload(_export_again, _old_artifact),
    "evaluate": Workload(_evaluate),
    "predict": Workload(_predict, lambda world, output: output.mkdir()),
    "bench": Workload(_bench, timed=("result.json", "bench.svg")),
    "run": Workload(
        _run, timed=("result.json", "report.html", "stages.json", "bench/*", "artifact/README.md")
    ),
    "ablate": Workload(_ablate, timed=("*.svg",)),
}

# Keys whose values are of the clock, and folders of logs.
_TIMES = ("seconds", "speed")


def contents(output: Path, timed: Sequence[str] = ()) -> dict[str, str]:
    """Return a digest of every file of an output folder, without what depends on the clock or the path.

    Args:
        timed: patterns of files of measured times. Of JSON only the keys count, of others that they are not
            empty.
    """
    found = {}
    for file in sorted(path for path in output.rglob("*") if path.is_file()):
        name = file.relative_to(output).as_posix()
        if "events.out" in name:
            continue
        if name.endswith("training_args.bin"):
            continue  # it has the path of the folder
        if name.endswith((".lock", ".holder")):
            continue  # of a process that was killed: the next one takes it over
        data, is_timed = file.read_bytes(), any(fnmatch.fnmatch(name, pattern) for pattern in timed)
        if file.suffix in (".json", ".yaml", ".md"):
            data = data.replace(str(output).encode(), b"OUTPUT")
        if file.suffix == ".json" and _is_json(data):
            content = _without_times(json.loads(data))
            if file.name == "seal.json":  # its other files are compared themselves
                content = sorted(content)  # results have times
            data = json.dumps(_keys(content) if is_timed else content, sort_keys=True).encode()
        elif is_timed:
            data = b"something" if data.strip() else b""
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def _without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_times(value) for key, value in content.items() if key not in _TIMES}
    return content


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:  # cut or damaged
        return False
    return True


def _keys(content: Any) -> Any:
    return {key: _keys(value) for key, value in content.items()} if isinstance(content, dict) else None


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> Sequence[str]:
    """Return the names of files that differ, are missing or are too many."""
    return [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
