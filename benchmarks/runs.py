"""Code shared by the benchmarks that train: a run through the command line, and its record."""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.timing.machine import describe_machine

RECORD = "record.json"


def students_parser(description: str | None) -> argparse.ArgumentParser:
    """The options of a script that makes students of teachers."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teachers", type=Path, default=Path("teachers"))
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--quick", action="store_true")
    return parser


def finish(
    command: list[str],
    output: Path,
    describe: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """The record of a command that writes to `output`. One that is finished is not run again.

    Args:
        describe: result.json to what is kept of it beside the scores.
    """
    saved = output / RECORD
    if saved.exists():
        found: dict[str, Any] = json.loads(saved.read_text())
        if found["command"] != shlex.join(command):
            raise SystemExit(f"{output} was made by another command: {found['command']}")
        return found
    print(shlex.join(command), file=sys.stderr)
    # Not --overwrite: a run that was interrupted continues.
    subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    result = json.loads((output / "result.json").read_text())
    made = record(result, command) | describe(result)
    saved.write_text(json.dumps(made, indent=2) + "\n")
    return made


def collect(file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The results in a file, with the records of all finished runs named after it in the output folder,
    whichever process made them."""
    prefix = f"{file.stem}-"
    results = json.loads(file.read_text()) if file.exists() else {}
    results |= {
        folder.name.removeprefix(prefix): json.loads((folder / RECORD).read_text())
        for folder in sorted(options.output_dir.glob(f"{prefix}*"))
        if (folder / RECORD).exists()
    }
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n")
    return results


def show_means(results: dict[str, Any], ways: Iterable[str]) -> None:
    """Print each way's mean over its runs, and those."""
    for way in ways:
        runs = [run for name, run in sorted(results.items()) if name.startswith(f"{way}-")]
        for metric in runs[0]["scores"] if runs else ():
            values = [run["scores"][metric]["value"] for run in runs]
            shown = ", ".join(f"{value:.4f}" for value in values)
            print(f"{way:20} {metric:8} mean {statistics.mean(values):.4f}  {shown}", file=sys.stderr)


def tinybert_student(
    task: str,
    name: str,
    settings: dict[str, Any],
    steps: dict[str, int],
    options: argparse.Namespace,
    *,
    teacher: Path | None = None,
) -> dict[str, Any]:
    """Both of TinyBERT's task stages, for so many steps each; the run's record."""
    # The rate of a student that is not fitted to its teacher.
    settings = {"task": task, "intermediate.training.learning_rate": 1e-3} | settings
    settings |= {
        f"{stage}.training.max_steps": 5 if options.quick else count for stage, count in steps.items()
    }
    return distilled(task, "desk-tinybert-mrpc", name, settings, options, teacher=teacher)


def distilled(
    task: str,
    recipe: str,
    name: str,
    settings: dict[str, Any],
    options: argparse.Namespace,
    *,
    teacher: Path | None = None,
) -> dict[str, Any]:
    """Distil the teacher of a task, or another one; the run's record."""
    output = options.output_dir / name
    command = ["understudy", "distill", str(teacher or options.teachers / task), "--recipe", recipe]
    command += ["--data", str(options.assets / "glue")]
    command += settings_options({"task": task} | settings)
    command += ["--output-dir", str(output)]

    def describe(result: dict[str, Any]) -> dict[str, Any]:
        held_out = {
            name: stage["held_out"] for name, stage in result["stages"].items() if "held_out" in stage
        }
        return {
            "teacher": {name: figure["value"] for name, figure in result["against"]["scores"]["dev"].items()},
            "difference": result["difference"]["dev"],
            "steps": {name: stage["steps"] for name, stage in result["stages"].items()},
            **({"held_out": held_out["intermediate"]} if held_out else {}),
        }

    return finish(command, output, describe)


def settings_options(settings: dict[str, Any]) -> list[str]:
    """`--set key=value` for each."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def record(result: dict[str, Any], command: list[str]) -> dict[str, Any]:
    """What is kept of a run, to be made again."""
    scores = {"scores": result["scores"]["dev"]} if "scores" in result else {}
    return scores | {
        "command": shlex.join(command),
        "commit": git_commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": result["versions"],
    }


def git_commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    here = Path(__file__).parent
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=here).stdout.strip()


def machine() -> str:
    found = describe_machine()
    return f"{found['cores']} cores, {found['processor']}"
