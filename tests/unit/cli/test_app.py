from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from understudy.cli.app import app, main

HEAVY = ("torch", "transformers", "datasets", "pyarrow", "sklearn", "scipy")
HELP_WITHOUT = """
import sys
from understudy.cli.app import app
try:
    app({arguments!r})
except SystemExit as end:
    assert end.code == 0, end.code
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["finetune", "--help"], ["evaluate", "--help"], ["recipes"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = HELP_WITHOUT.format(arguments=arguments, heavy=HEAVY)
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr.strip() == "[]"
    assert "understudy" in finished.stdout or "recipe" in finished.stdout


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, understudy; print([name for name in {HEAVY!r} if name in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["finetune", "evaluate", "recipes"])
def test_help_shows_an_example_first(command: str) -> None:
    output = CliRunner().invoke(app, [command, "--help"]).output
    assert f"understudy {command} " in output.split("Options")[0].split("Usage:")[1].split("\n", 1)[1]


def test_public_names_are_there() -> None:
    import understudy

    for name in understudy.__all__:
        assert getattr(understudy, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'distil'"):
        _ = understudy.distil


def test_a_users_mistake_is_a_message_and_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["understudy", "recipes", "finetune-mrcp"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("RecipeError: recipe 'finetune-mrcp'")


def test_a_recipe_can_be_shown_and_kept() -> None:
    output = CliRunner().invoke(app, ["recipes", "finetune-mrpc"]).output
    assert output.startswith("# MRPC teacher")
    assert "task: mrpc" in output


def test_version() -> None:
    import understudy

    assert CliRunner().invoke(app, ["--version"]).output == f"understudy {understudy.__version__}\n"
