"""What a killed process has left of a file is removed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from understudy.files import remove_half_written


def test_only_what_nobody_writes_any_more_is_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f"out[1].csv.{gone.pid}-0a.writing"
    others = [
        tmp_path / f"out[1].csv.{os.getpid()}-0b.writing",
        tmp_path / "out[1].csv.mine.writing",
        tmp_path / f"other.csv.{gone.pid}-0c.writing",
    ]
    for file in (left, *others):
        file.write_text("half", "utf-8")
    remove_half_written(tmp_path / "out[1].csv")
    assert not left.exists()
    assert all(file.exists() for file in others)
