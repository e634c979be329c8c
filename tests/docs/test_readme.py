"""What README and docs claim: commands that run, figures that were measured."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from understudy.cli.app import app
from understudy.data.tasks import TASKS
from understudy.recipe.shelf import shipped_recipes

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GLUE_ROWS = (
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    "1\t1\t2\tgood film\tgreat film\n"
    "0\t3\t4\tred cat\tblue dog\n"
)
TINY = {
    "finetune": ["training.max_steps=1", "training.report_to=none", "data.max_length=32"],
    "tinybert": [
        *(
            f"{stage}.training.{setting}"
            for stage in ("intermediate", "prediction")
            for setting in ("max_steps=1", "report_to=none")
        ),
        "data.max_length=32",
        # The tiny teacher has two heads and two layers.
        "intermediate.relation_heads=2",
        "student.num_hidden_layers=2",
    ],
    "corpus": ["corpus.max_length=32", "corpus.held_out=0.3"],
    "general": [
        "general.training.max_steps=1",
        "general.training.report_to=none",
        "general.training.per_device_train_batch_size=2",
        "general.relation_heads=2",
        "student.num_hidden_layers=2",
    ],
    "cut": ["student.hidden_size=16", "student.num_attention_heads=2", "student.intermediate_size=32"],
    "patient": [
        f"{stage}.training.{setting}"
        for stage in ("soft_labels", "patient")
        for setting in ("max_steps=1", "report_to=none")
    ],
}


def tiny(arguments: list[str]) -> list[str]:
    """Settings that make a command fit the tiny teacher and a second."""
    if arguments[0] == "distill":
        settings = TINY["patient"] if "patient" in arguments else TINY["tinybert"]
        settings = settings + (TINY["cut"] if "student.init=cut" in arguments else [])
        if any(argument.endswith("general/student") for argument in arguments):
            settings = [setting for setting in settings if not setting.startswith("student.")]
    elif arguments[0] == "export":
        return ["--tolerance", "100", "--no-speed"]  # it has learnt nothing that could be lost
    elif arguments[0] == "plan":
        return ["--seconds", "1", *(part for setting in TINY["general"] for part in ("--set", setting))]
    else:
        settings = TINY.get(arguments[0], [])
    return [part for setting in settings for part in ("--set", setting)]


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("understudy ")]


def test_the_commands_run(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In README's order, in one empty folder, with a tiny model and tiny data in the place of real ones."""
    monkeypatch.chdir(tmp_path)
    for name in ("train", "dev"):
        (tmp_path / "glue" / "MRPC").mkdir(parents=True, exist_ok=True)
        (tmp_path / "glue" / "MRPC" / f"{name}.tsv").write_text(GLUE_ROWS, "utf-8")
        (tmp_path / f"{name}.csv").write_text("review,sentiment\ngood,pos\nbad,neg\n", "utf-8")
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "a.txt").write_text("\n\n".join(f"the cat {n} runs." for n in range(20)))
    stand_ins = {"bert-base-uncased": str(encoder), "nyu-mll/glue": str(tmp_path / "glue")}
    found = commands(README)
    assert len(found) >= 14
    for arguments in found:
        arguments = [
            start + equals + stand_ins.get(end, end)
            for start, equals, end in (argument.rpartition("=") for argument in arguments)
        ]
        arguments += tiny(arguments)
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, (arguments, result.output)
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code) == 2
    for block in code:
        for name, stand_in in stand_ins.items():
            block = block.replace(name, stand_in)
        exec(block, {})


def test_the_tables_say_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from tables import with_tables

    assert with_tables(README) == README
    log = (ROOT / "docs" / "LOG.md").read_text("utf-8")
    assert with_tables(log) == log
    marks = ("starts", "held-out", "patient", "augmented", "augment-rows", "augment-examples")
    for mark in (*marks, "general", "deploy"):
        assert f"<!-- {mark} -->\n| task |" in log
    for mark in ("teachers", "students", "starts", "general"):
        assert f"<!-- {mark} -->\n| task |" in README


def test_the_tree_names_what_is_there() -> None:
    tree = README.split("```text\n")[1].split("```")[0]
    named = {line.split()[0] for line in tree.splitlines() if line.startswith("  ")}
    folders = {f"{path.name}/" for path in (ROOT / "src" / "understudy").iterdir() if path.is_dir()}
    assert named >= folders - {"__pycache__/"}


def test_the_page_on_data_names_every_task_and_every_recipe_exists() -> None:
    page = (ROOT / "docs" / "reference" / "data.md").read_text("utf-8")
    assert all(f"`{task}`" in page for task in TASKS)
    for name in re.findall(r"`((?:desk-)?(?:finetune|tinybert)-[a-z0-9-]+)`", README):
        assert name in shipped_recipes()
