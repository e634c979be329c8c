"""Write the papers' experiments as recipes of whole runs, from the recipes of their stages.

    python tools/write_recipes.py

Each is a fine-tuned teacher, augmentation where the paper has it, and a distillation, with the settings that
`finetune-*`, `augment-*`, `tinybert-*` and `pkd-*` have. A test sees to it that the files are what this says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from understudy.kinds.tasks import get_task
from understudy.recipe.library import shipped_recipes

FOLDER = Path(__file__).parents[1] / "src" / "understudy" / "recipe" / "shipped"
GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
PATIENT = ("sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "race")
NAMES = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "stsb": "STS-B",
    "squad": "SQuAD 1.1",
    "squad2": "SQuAD 2.0",
}  # others are their own in capitals
DATA = {"squad": "rajpurkar/squad", "squad2": "rajpurkar/squad_v2", "race": "ehovy/race"}
# The general students that the authors of TinyBERT have published.
GENERAL = {4: "huawei-noah/TinyBERT_General_4L_312D", 6: "huawei-noah/TinyBERT_General_6L_768D"}
TEACHER = "bert-base-uncased"


def whole_runs() -> dict[str, str]:
    """Name and text of every file."""
    made = {
        f"tinybert{layers}-{task}": tinybert(task, layers)
        for layers in GENERAL
        for task in (*GLUE, "squad", "squad2")
    }
    return made | {f"pkd{layers}-{task}": pkd(task, layers) for layers in (6, 3) for task in PATIENT}


def tinybert(task: str, layers: int) -> str:
    """TinyBERT of four or six layers: Tables 1 and 5 of the paper, Table 6 for SQuAD."""
    table = "Table 6 of the EMNLP paper" if task.startswith("squad") else "Tables 1 and 5 of the EMNLP paper"
    if task == "wnli":
        table = "not in the paper, which leaves WNLI out"
    distilled = values(f"tinybert-{task}")
    augment = values(
        f"augment-{task}" if f"augment-{task}" in shipped_recipes() else f"augment-{get_task(task).kind}"
    )
    header = [
        f"TinyBERT{layers} on {NAMES.get(task, task.upper())}: {table}.",
        f"Needs: {TEACHER}, {DATA.get(task, 'nyu-mll/glue')} and {GENERAL[layers]} from the hub, or your "
        "own with",
        "--data and --student; a GPU, for BERT-base teaches tens of epochs of augmented rows. GloVe, which "
        "the authors use",
        "for words of several pieces, goes in with --set augment.vectors=glove.6B.300d.txt.",
        f"understudy run --recipe tinybert{layers}-{task} --output-dir runs/tinybert{layers}-{task}",
    ]
    if task.startswith("squad"):
        header.insert(
            -1, "The paper learns predictions on the original rows; here both stages read the augmented ones."
        )
    content = {
        "task": task,
        "method": "tinybert",
        "data": {"source": DATA.get(task, "nyu-mll/glue")},
        "finetune": {"model": TEACHER, "training": values(f"finetune-{task}")["training"]},
        "augment": {"model": TEACHER, **augment["augment"]},
        "student": {"model": GENERAL[layers]},
        "intermediate": distilled["intermediate"],
        "prediction": distilled["prediction"],
    }
    return write(header, content)


def pkd(task: str, layers: int) -> str:
    """Patient KD with six or three layers: Table 1 of its paper, Table 3 for RACE."""
    distilled = values(f"pkd-{get_task(task).kind}")
    header = [
        f"Patient KD (PKD-Skip) on {NAMES.get(task, task.upper())} with {layers} layers: Table "
        f"{3 if task == 'race' else 1}.",
        f"Needs: {TEACHER} and {DATA.get(task, 'nyu-mll/glue')} from the hub, or your own with --data; a "
        "GPU for its grid",
        "of 39 trainings. PKD-Last is --set patient.layer_map=last.",
        f"understudy run --recipe pkd{layers}-{task} --output-dir runs/pkd{layers}-{task}",
    ]
    content = {
        "task": task,
        "method": "patient",
        "data": {"source": DATA.get(task, "nyu-mll/glue")},
        "finetune": {"model": TEACHER, "training": values(f"finetune-{task}")["training"]},
        "student": {**distilled["student"], "source": TEACHER, "num_hidden_layers": layers},
        "soft_labels": distilled["soft_labels"],
        "patient": distilled["patient"],
    }
    return write(header, content)


def values(name: str) -> dict[str, Any]:
    """A shipped recipe as it is written."""
    content: dict[str, Any] = yaml.safe_load(shipped_recipes()[name])
    return content


def write(header: list[str], content: dict[str, Any]) -> str:
    """A recipe's text: its header, then its keys."""
    body = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return "".join(f"# {line}\n" for line in header) + body


if __name__ == "__main__":
    for name, text in whole_runs().items():
        (FOLDER / f"{name}.yaml").write_text(text, "utf-8")
