"""The papers' experiments as recipes: one table, and the text of a recipe for each of its rows.

Each combines the recipe for its kind of task (`finetune-classification.yaml` etc., in `shipped/`) with the
papers' settings for the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

TEACHER = "bert-base-uncased"
# The general students published by the authors of TinyBERT.
GENERAL = {4: "huawei-noah/TinyBERT_General_4L_312D", 6: "huawei-noah/TinyBERT_General_6L_768D"}
STATUS = "From the paper, not run here."

Read = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """The papers' settings for a task.

    Attributes:
        title: the task's usual name.
        base: the suffix of the recipes it is based on.
        encoder: the encoder that its teacher starts from.
        data: its dataset on the hub.
        finetune: the training settings of a teacher; None for Patient KD's.
        finetune_source: where these are from.
        epochs: epochs of intermediate layer distillation.
        prediction: the `prediction` block, if it is not the paper's grid.
        variants: augmented rows for each row; None if the published code has no number of its own.
        settings: other keys, for every training recipe of the task.
        in_patient: whether it is in the tables of Patient KD.
    """

    title: str
    base: str
    data: str = "nyu-mll/glue"
    finetune: Mapping[str, Any] | None = None
    finetune_source: str = (
        "Patient KD, section 4.2: 4 epochs, batch 32, the best learning rate of {5e-5, 2e-5, 1e-5} and the "
        "best epoch on dev."
    )
    epochs: int = 20
    prediction: Mapping[str, Any] | None = None
    variants: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    in_patient: bool = False
    encoder: str = TEACHER


_PATIENT_TRAINING = {
    "num_train_epochs": 4,
    "per_device_train_batch_size": 32,
    "learning_rate": 2.0e-5,
    "load_best_model_at_end": True,
}
_GRID = {
    "training": {"num_train_epochs": 3},
    "search": {"per_device_train_batch_size": [16, 32], "learning_rate": [1.0e-5, 2.0e-5, 3.0e-5]},
}
_SMALL_BATCHES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}


def _predictions(learning_rate: float, batch: Mapping[str, int]) -> dict[str, Any]:
    return {"training": {"num_train_epochs": 3, **batch, "learning_rate": learning_rate}}


EXPERIMENTS: Mapping[str, Experiment] = {
    "cola": Experiment("CoLA", "classification", epochs=50, variants=30),
    "sst2": Experiment("SST-2", "classification", epochs=20, variants=20, in_patient=True),
    "mrpc": Experiment("MRPC", "classification", variants=30, in_patient=True),
    "stsb": Experiment("STS-B", "regression", variants=30),
    "qqp": Experiment(
        "QQP",
        "classification",
        epochs=10,
        variants=10,
        in_patient=True,
        # The published train.tsv has lines with columns missing.
        settings={"data": {"bad_rows": "drop"}},
    ),
    "mnli": Experiment("MNLI", "classification", epochs=10, variants=10, in_patient=True),
    "qnli": Experiment("QNLI", "classification", epochs=10, variants=20, in_patient=True),
    "rte": Experiment("RTE", "classification", variants=30, in_patient=True),
    "wnli": Experiment("WNLI", "classification"),
    "squad": Experiment(
        "SQuAD 1.1",
        "question-answering",
        "rajpurkar/squad",
        {"num_train_epochs": 3, "per_device_train_batch_size": 32, "learning_rate": 5.0e-5},
        "BERT, section 4.2: 3 epochs, batch 32, learning rate 5e-5.",
        epochs=10,
        prediction=_predictions(5.0e-5, {"per_device_train_batch_size": 32}),
    ),
    "squad2": Experiment(
        "SQuAD 2.0",
        "question-answering",
        "rajpurkar/squad_v2",
        {"num_train_epochs": 2, "per_device_train_batch_size": 48, "learning_rate": 5.0e-5},
        "BERT, section 4.3: 2 epochs, batch 48, learning rate 5e-5.",
        epochs=10,
        prediction=_predictions(5.0e-5, {"per_device_train_batch_size": 32}),
    ),
    "race": Experiment(
        "RACE",
        "multiple-choice",
        "ehovy/race",
        {**_PATIENT_TRAINING, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 8},
        "Patient KD, section 4.2, at length 512: 4 epochs, batch 32 (4 questions at a time, accumulated 8 "
        "times), the best epoch on dev.",
        epochs=10,
        prediction=_predictions(3.0e-5, _SMALL_BATCHES),
        in_patient=True,
    ),
    "conll2003": Experiment(
        "CoNLL-2003",
        "token-classification",
        "lhoestq/conll2003",
        {"num_train_epochs": 3, "per_device_train_batch_size": 32, "learning_rate": 5.0e-5},
        "BERT, appendix A.3: 3 epochs, batch 32, learning rate 5e-5.",
        epochs=10,
        prediction=_predictions(3.0e-5, {"per_device_train_batch_size": 16}),
        encoder="bert-base-cased",
    ),
}


def paper_recipes(read: Read) -> dict[str, str]:
    """Return the name and text of every experiment's recipe.

    Args:
        read: returns the values of a recipe in `shipped/`.
    """
    made: dict[str, str] = {}
    for task, one in EXPERIMENTS.items():
        made[f"finetune-{task}"] = _finetune(task, one)
        made[f"tinybert-{task}"] = _tinybert(task, one, read)
        if one.variants is not None:
            made[f"augment-{task}"] = _augment(task, one, read)
        if task not in ("race", "conll2003"):
            made |= {f"tinybert{n}-{task}": _tinybert_run(task, one, n, read) for n in GENERAL}
        if one.in_patient:
            made |= {f"pkd{n}-{task}": _patient_run(task, one, n, read) for n in (6, 3)}
    return made


def _finetune(task: str, one: Experiment) -> str:
    header = [
        f"{one.title} teacher from {one.encoder}. {STATUS}",
        one.finetune_source,
        f"understudy finetune {one.encoder} --task {task} --data {one.data} --output-dir teachers/{task}",
    ]
    return _write(header, {"task": task, **one.settings, "training": one.finetune or _PATIENT_TRAINING})


def _augment(task: str, one: Experiment, read: Read) -> str:
    by_code = "" if one.variants == 20 else " as in the published code (the paper says 20)"
    header = [
        f"Augmentation of {one.title}: {one.variants} variants of each row{by_code}. {STATUS}",
        "Algorithm 1 with a replacement probability of 0.4 and 15 candidates.",
        f"understudy augment {TEACHER} --task {task} --data {one.data} --output-dir augmented/{task}",
    ]
    settings = read(f"augment-{one.base}")["augment"] | {"variants": one.variants}
    return _write(header, {"task": task, **one.settings, "augment": settings})


def _distillation(one: Experiment, read: Read) -> dict[str, Any]:
    """Return the blocks of both TinyBERT stages."""
    base = read(f"tinybert-{one.base}")["intermediate"]
    training = {**base["training"], "num_train_epochs": one.epochs}
    return {"intermediate": {**base, "training": training}, "prediction": one.prediction or _GRID}


def _tinybert(task: str, one: Experiment, read: Read) -> str:
    if task in ("race", "conll2003"):
        source = ["No experiment of the paper: its settings for GLUE, with a learning rate from its grid."]
    elif one.base == "question-answering":
        source = [
            "ICLR version, appendix on SQuAD: 10 epochs of intermediate layers as for the large GLUE tasks,",
            "then 3 epochs of predictions at 5e-5.",
        ]
    else:
        source = [
            f"EMNLP, section 4.2: {one.epochs} epochs of intermediate layers at 5e-5, then 3 of predictions;",
            "batch size and learning rate are the best on dev. The constant learning rate is the published "
            "code's.",
            "Use it with augmented rows and a general student (--student FOLDER), as the paper does. Without",
            "such a student, one is cut from the teacher.",
        ]
    header = [
        f"{one.title} student by TinyBERT. {STATUS}",
        *source,
        f"understudy distill teachers/{task} --task {task} --data {one.data} --output-dir students/{task}",
    ]
    student = {"init": "cut", "shape": "tinybert-4l-312d"}
    content = {"task": task, "method": "tinybert", **one.settings, "student": student}
    return _write(header, content | _distillation(one, read))


def _tinybert_run(task: str, one: Experiment, layers: int, read: Read) -> str:
    """Write TinyBERT with four or six layers: Tables 1 and 5 of the paper, Table 6 for SQuAD."""
    table = "Table 6" if one.base == "question-answering" else "Tables 1 and 5"
    where = "not in the paper" if task == "wnli" else f"{table} of the EMNLP paper"
    header = [
        f"TinyBERT{layers} on {one.title}, the whole run: {where}. {STATUS}",
        f"Needs {TEACHER}, {one.data} and {GENERAL[layers]} from the hub (or your own:",
        "--data and --student) and a GPU: BERT-base teaches tens of epochs of augmented rows. For words of",
        "several pieces the authors use GloVe: --set augment.vectors=glove.6B.300d.txt.",
        f"understudy run --recipe tinybert{layers}-{task} --output-dir runs/tinybert{layers}-{task}",
    ]
    if one.base == "question-answering":
        header.insert(
            -1, "The paper learns predictions on original rows; here both stages read augmented ones."
        )
    settings = read(f"augment-{one.base}")["augment"]
    if one.variants is not None:
        settings = {**settings, "variants": one.variants}
    content = {
        "task": task,
        "method": "tinybert",
        "data": {"source": one.data, **one.settings.get("data", {})},
        "finetune": {"model": TEACHER, "training": one.finetune or _PATIENT_TRAINING},
        "augment": {"model": TEACHER, **settings},
        "student": {"model": GENERAL[layers]},
        **_distillation(one, read),
    }
    return _write(header, content)


def _patient_run(task: str, one: Experiment, layers: int, read: Read) -> str:
    """Write Patient KD with six or three layers: Table 1 of its paper, Table 3 for RACE."""
    distilled = read(f"pkd-{one.base}")
    header = [
        f"Patient KD (PKD-Skip) on {one.title} with {layers} layers, the whole run: "
        f"Table {3 if task == 'race' else 1}. {STATUS}",
        f"Needs {TEACHER} and {one.data} from the hub (or your own with --data), and a GPU for 39 trials.",
        "PKD-Last is --set patient.layer_map=last.",
        f"understudy run --recipe pkd{layers}-{task} --output-dir runs/pkd{layers}-{task}",
    ]
    content = {
        "task": task,
        "method": "patient",
        "data": {"source": one.data, **one.settings.get("data", {})},
        "finetune": {"model": TEACHER, "training": one.finetune or _PATIENT_TRAINING},
        "student": {**distilled["student"], "source": TEACHER, "num_hidden_layers": layers},
        "soft_labels": distilled["soft_labels"],
        "patient": distilled["patient"],
    }
    return _write(header, content)


def _write(header: list[str], content: Mapping[str, Any]) -> str:
    """Format a recipe: its header, then its keys."""
    body = yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"# {line}\n" for line in header) + body


class _Dumper(yaml.SafeDumper):
    """A dumper that writes lists of numbers on one line, and shared blocks in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)
