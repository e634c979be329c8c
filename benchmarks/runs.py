"""What the benchmarks that train have in common: a run by the command line, and its record."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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


def settings_options(settings: dict[str, Any]) -> list[str]:
    """`--set key=value` for each."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def record(result: dict[str, Any], command: list[str]) -> dict[str, Any]:
    """What is kept of a run, to be made again."""
    return {
        "scores": result["scores"]["dev"],
        "command": shlex.join(command),
        "commit": git_commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": result["versions"],
    }


def git_commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def machine() -> str:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown",
    )
    return f"{os.cpu_count()} cores, {model}"
