from __future__ import annotations

from pathlib import Path

from understudy.training.checkpoint import last_complete_checkpoint


def checkpoint(folder: Path, step: int, state: str | None = "{}") -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    if state is not None:
        (path / "trainer_state.json").write_text(state)
    return path


def test_the_newest_by_number(tmp_path: Path) -> None:
    checkpoint(tmp_path, 9)
    newest = checkpoint(tmp_path, 10)
    assert last_complete_checkpoint(tmp_path) == newest


def test_half_written_ones_are_passed_over(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 5)
    checkpoint(tmp_path, 10, state=None)
    checkpoint(tmp_path, 15, state='{"epoch": 1')
    (tmp_path / "checkpoint-old").mkdir()
    assert last_complete_checkpoint(tmp_path) == whole


def test_none(tmp_path: Path) -> None:
    assert last_complete_checkpoint(tmp_path / "nowhere") is None
