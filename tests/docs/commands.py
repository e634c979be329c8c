"""The commands and code blocks of a page, run with a tiny model and tiny data in the place of real ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from understudy.cli.app import app
from understudy.recipe.load import load_recipe

MRPC = (
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    "1\t1\t2\tgood film\tgreat film\n"
    "0\t3\t4\tred cat\tblue dog\n"
)
SST2 = "sentence\tlabel\ngood film\t1\nbad film\t0\nwhat a great movie\t1\nan awful movie\t0\n"
STEP = ("max_steps=1", "report_to=none")
# The tiny teacher has two heads and two layers.
SIZES = ("student.hidden_size=16", "student.num_attention_heads=2", "student.intermediate_size=32")


def write_data(folder: Path) -> None:
    """MRPC and SST-2 in GLUE's layout, CSV files, texts and documents."""
    for task, rows in (("MRPC", MRPC), ("SST-2", SST2)):
        (folder / "glue" / task).mkdir(parents=True)
        for name in ("train", "dev"):
            (folder / "glue" / task / f"{name}.tsv").write_text(rows, "utf-8")
    for name in ("train", "dev"):
        (folder / f"{name}.csv").write_text("review,sentiment\ngood,pos\nbad,neg\n", "utf-8")
    rows = "".join(f"the film {n} was good,5\nthe film {n} was bad,1\n" for n in range(20))
    (folder / "reviews.csv").write_text(f"review,stars\n{rows}", "utf-8")
    (folder / "texts.txt").write_text("".join(f"the film {n} was good\n" for n in range(40)), "utf-8")
    (folder / "wiki").mkdir()
    (folder / "wiki" / "a.txt").write_text("\n\n".join(f"the cat {n} runs." for n in range(20)))


def stand_ins(folder: Path, encoder: Path) -> dict[str, str]:
    """What stands for the names of models and data."""
    models = ("bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2", "ENCODER")
    return {"nyu-mll/glue": str(folder / "glue")} | dict.fromkeys(models, str(encoder))


def commands(text: str) -> list[list[str]]:
    """Every `understudy …` of a page's bash blocks."""
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.split(line.split(" > ")[0], comments=True)[1:] for line in lines]
    return [words for words, line in zip(found, lines, strict=True) if line.startswith("understudy ")]


def run_command(arguments: list[str], names: dict[str, str]) -> None:
    """Run one, with settings that make it fit the tiny teacher and a second."""
    arguments = [
        start + equals + names.get(end, end)
        for start, equals, end in (argument.rpartition("=") for argument in arguments)
    ]
    result = CliRunner().invoke(app, [*arguments, *tiny(arguments)], catch_exceptions=False)
    assert result.exit_code == 0, (arguments, result.output)


def run_code(text: str, names: dict[str, str]) -> int:
    """Run a page's Python blocks, one after the other; how many there are."""
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for block in blocks:
        for name, stand_in in names.items():
            block = block.replace(name, stand_in)
        exec(block, {})
    return len(blocks)


def tiny(arguments: list[str]) -> list[str]:
    """What is added to a command."""
    verb = arguments[0]
    if verb == "export":
        return ["--tolerance", "100", "--no-speed"]  # it has learnt nothing that could be lost
    settings = _settings(verb, arguments)
    added = [part for setting in settings for part in ("--set", setting)]
    return ["--seconds", "1", *added] if verb == "plan" else added


def _settings(verb: str, arguments: list[str]) -> list[str]:
    steps = {
        name: [f"{name}.training.{step}" for step in STEP]
        for name in ("intermediate", "prediction", "soft_labels", "patient", "general", "finetune")
    }
    if verb == "finetune":
        return [*(f"training.{step}" for step in STEP), "data.max_length=32"]
    if verb == "corpus":
        return ["corpus.max_length=32", "corpus.held_out=0.3"]
    if verb in ("general", "plan"):
        sizes = ["general.relation_heads=2", "student.num_hidden_layers=2"]
        return [*steps["general"], "general.training.per_device_train_batch_size=2", *sizes]
    if verb == "run":
        if "--recipe" in arguments:
            return run_settings(arguments[arguments.index("--recipe") + 1])
        return run_settings("desk-embedding" if "embedding" in arguments else "desk-classification")
    if verb == "ablate":
        return [*steps["intermediate"], *steps["prediction"], "intermediate.relation_heads=2"]
    if verb == "distill" and "patient" in arguments:
        return [*steps["soft_labels"], *steps["patient"], "data.max_length=32"]
    if verb == "distill":
        made = [
            *steps["intermediate"],
            *steps["prediction"],
            "data.max_length=32",
            "intermediate.relation_heads=2",
        ]
        if any(argument.endswith("/student") for argument in arguments):
            return made
        return [*made, "student.num_hidden_layers=2", *SIZES]
    return []


def run_settings(recipe: str) -> list[str]:
    """For a whole run of a shipped recipe."""
    blocks = [
        name for name in ("finetune", "intermediate", "prediction") if getattr(load_recipe(recipe), name)
    ]
    made = [f"{name}.training.{step}" for name in blocks for step in STEP]
    return [*made, "student.num_hidden_layers=2", *SIZES, "data.max_length=32", "export.tolerance=100"]
