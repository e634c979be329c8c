from __future__ import annotations

from pathlib import Path

from understudy.files import SEAL, seal_folder
from understudy.training.checkpoint import last_complete_checkpoint


def checkpoint(folder: Path, step: int, *, sealed: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(bytes(100))
    (path / "trainer_state.json").write_text("{}")
    if sealed:
        seal_folder(path)
    return path


def test_the_newest_by_number(tmp_path: Path) -> None:
    checkpoint(tmp_path, 9)
    newest = checkpoint(tmp_path, 10)
    assert last_complete_checkpoint(tmp_path) == newest


def test_half_written_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 5)
    checkpoint(tmp_path, 10, sealed=False)
    (checkpoint(tmp_path, 15) / "model.safetensors").write_bytes(bytes(99))
    (checkpoint(tmp_path, 20) / "trainer_state.json").unlink()
    (checkpoint(tmp_path, 25) / SEAL).write_text('{"model')
    flipped = checkpoint(tmp_path, 30) / "model.safetensors"
    flipped.write_bytes(bytes(99) + b"x")
    (tmp_path / "checkpoint-old").mkdir()
    assert last_complete_checkpoint(tmp_path) == whole


def test_none(tmp_path: Path) -> None:
    assert last_complete_checkpoint(tmp_path / "nowhere") is None
