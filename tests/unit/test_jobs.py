"""Jobs in several processes share the cores."""

from __future__ import annotations

import os
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
