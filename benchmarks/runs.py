"""What the benchmarks that train have in common: a run by the command line, and its record."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def finish(command: list[str], output: Path) -> dict[str, Any]:
    """The result of a command that writes to `output`; one that is finished is not run again."""
    if not (output / "result.json").exists():
        print(shlex.join(command), file=sys.stderr)
        # Not --overwrite: a run that was interrupted continues.
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    return json.loads((output / "result.json").read_text())


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
