from __future__ import annotations

import pytest

import understudy.progress
from understudy.progress import progress


def test_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = iter([0.0, 10.0, 31.0, 31.0, 50.0])
    monkeypatch.setattr(understudy.progress.time, "monotonic", lambda: next(seconds))
    caplog.set_level("INFO")
    with progress("Teacher", 3_000, "rows") as advance:
        for _ in range(3):
            advance(1_000)
    assert [record.getMessage() for record in caplog.records] == ["Teacher: 2,000 of 3,000 rows"]


def test_nothing_where_it_is_hidden(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(understudy.progress, "SECONDS_BETWEEN_LINES", 0.0)
    caplog.set_level("INFO")
    with progress("Teacher", 1, hidden=True) as advance:
        advance(1)
    assert not caplog.records
