"""The benchmark that answers "does memory grow with the rows?", on fewer rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "million_rows.py"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the script reads Linux' /proc")
def test_memory_does_not_grow_with_the_rows(encoder: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--tokenizer", str(encoder), "--rows", "20000", "100000"]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(finished.stdout.splitlines()[-1])
    small, large = result["sizes"]
    # The larger file has 8 MB more text, which as Python objects and token lists is over 100 MB.
    assert large["file_mb"] - small["file_mb"] > 5
    assert result["growth_mb"] < 40
