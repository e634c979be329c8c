"""Two processes never write to one output folder at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.errors import OutputError
from understudy.workspace.lock import only_process_in

HOLD = """
import sys, time
from pathlib import Path
from understudy.workspace.lock import only_process_in

with only_process_in(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes to the folder `out`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_in_use_is_refused_with_its_process(
    other: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.monotonic()
    used = rf"out is in use by process {other.pid} on .*, since 20"
    with pytest.raises(OutputError, match=used), only_process_in(tmp_path / "out"):
        pass
    assert time.monotonic() - started < 2  # it is not waited for
    with only_process_in(tmp_path / "other"):
        pass
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="in use"), only_process_in(Path("out")):
        pass
    monkeypatch.setenv("RANK", "1")  # of a distributed run, whose first process holds it
    with only_process_in(tmp_path / "out"):
        pass


def test_a_process_that_was_killed_leaves_no_lock(other: subprocess.Popen[str], tmp_path: Path) -> None:
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    with only_process_in(tmp_path / "out"):
        pass
    assert not (tmp_path / "out").exists()  # nothing is left in the folder itself


def test_an_error_inside_gives_the_folder_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), only_process_in(tmp_path):
        raise ValueError("inside")
    with only_process_in(tmp_path):
        pass
