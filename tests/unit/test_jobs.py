"""Jobs in several processes share the cores."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from understudy.jobs import Job, run_jobs


def write_threads(folder: Path) -> Job:
    def job(number: int) -> None:
        (folder / str(number)).write_text(os.environ["OMP_NUM_THREADS"])

    return job


@pytest.mark.parametrize("given", [None, "3"])
def test_processes_share_the_cores(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert sorted(run_jobs("local", 2, [0, 1, 2], write_threads, tmp_path)) == [0, 1, 2]
    expected = given or str(max(1, (os.cpu_count() or 1) // 2))
    assert {(tmp_path / str(number)).read_text() for number in range(3)} == {expected}
    assert os.environ.get("OMP_NUM_THREADS") == given


def press_ctrl_c(folder: Path) -> Job:
    def job(number: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        (folder / str(number)).touch()

    return job


@pytest.mark.parametrize("ignored", [True, False])
def test_ctrl_c_ends_a_job_unless_the_command_ignores_it(ignored: bool, tmp_path: Path) -> None:
    """As a command does that a script has started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        if ignored:
            assert list(run_jobs("local", 2, [0, 1], press_ctrl_c, tmp_path)) == [0, 1]
        else:
            with pytest.raises(KeyboardInterrupt):
                list(run_jobs("local", 2, [0, 1], press_ctrl_c, tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)
    assert any(tmp_path.iterdir()) == ignored
