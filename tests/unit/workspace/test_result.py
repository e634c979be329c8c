"""The result of a part of a command, and what becomes of damage to its files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from understudy.workspace.folders import RESULT, STUDENT, TRAINING_FOLDER
from understudy.workspace.result import read_part, write_part

CONTENT = {"steps": 10, "seconds": {"training": 1.5}}


@pytest.fixture
def part(tmp_path: Path) -> Path:
    (tmp_path / STUDENT).mkdir()
    (tmp_path / STUDENT / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "losses.csv").write_text("step,loss\n")
    (tmp_path / TRAINING_FOLDER).mkdir()
    (tmp_path / TRAINING_FOLDER / "trainer.log").write_text("a line\n")
    write_part(tmp_path, CONTENT)
    return tmp_path


def test_a_whole_part_is_read_as_it_was_written(part: Path) -> None:
    assert read_part(part) == CONTENT
    (part / TRAINING_FOLDER / "trainer.log").write_text("a line\nanother one\n")
    assert read_part(part) == CONTENT


def test_what_a_killed_process_left_does_not_belong_to_a_part(part: Path) -> None:
    left = part / "losses.csv.1-ab.writing"
    left.write_text("step,lo")
    write_part(part, CONTENT)
    left.unlink()
    assert read_part(part) == CONTENT


def test_an_unfinished_part_is_none_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_part(tmp_path) is None
    assert not caplog.records


@pytest.mark.parametrize("name", ["student/model.safetensors", "losses.csv", RESULT])
@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_a_damaged_part_is_none_and_the_file_is_named(
    name: str, how: str, part: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = part / name
    data = file.read_bytes()
    if how == "missing":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[: len(data) // 2])
    else:  # the number of steps, in the result
        place = data.index(b"10") if name == RESULT else 3
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with caplog.at_level(logging.WARNING):
        assert read_part(part) is None
    if (name, how) != (RESULT, "missing"):  # which is an unfinished part
        assert str(file) in caplog.text


def test_a_part_of_an_earlier_version_has_no_hashes(tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text('{"steps": 10}')
    assert read_part(tmp_path) == {"steps": 10}
