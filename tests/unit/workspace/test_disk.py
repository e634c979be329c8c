"""Errors of a disk say what to do; files are on it before they have their names."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from understudy.artifacts.quantize import quantize
from understudy.errors import DataError, OutputError
from understudy.files import is_whole, is_whole_folder, seal_folder, write_atomically, write_sealed
from understudy.workspace.artifact_folder import replace_artifact
from understudy.workspace.disk import explain_disk_errors
from understudy.workspace.folders import check_artifact_folder
from understudy.workspace.lock import only_process_in


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # an error may hold a file open


def test_a_full_disk_says_what_to_do_and_leaves_nothing_half_written(small_disk: Path) -> None:
    output = small_disk / "out"
    output.mkdir()
    write_atomically(output / "result.json", "old")
    with (
        pytest.raises(OutputError, match=r"No space left on device\. Free some space, then run"),
        only_process_in(output),
    ):
        write_atomically(output / "result.json", "x" * 100_000)
    assert [path.name for path in output.iterdir()] == ["result.json"]
    assert (output / "result.json").read_text() == "old"
    with only_process_in(output):
        write_atomically(output / "result.json", "new")


@pytest.mark.parametrize("size", [60_000, 70_000, 200_000])
def test_a_full_disk_is_recognised_though_torch_does_not_name_it(size: int, small_disk: Path) -> None:
    (small_disk / "out").mkdir()
    with pytest.raises(OutputError, match="No space left on device"), only_process_in(small_disk / "out"):
        torch.save(torch.zeros(size // 4), small_disk / "out" / "optimizer.pt")


def test_a_full_disk_is_recognised_behind_the_next_error(small_disk: Path) -> None:
    """As where a library closes a file because it cannot write to it, and then fails to write to it."""
    (small_disk / "out").mkdir()

    def write() -> None:
        try:
            (small_disk / "out" / "rows.arrow").write_bytes(bytes(100_000))
        except OSError:
            raise ValueError("I/O operation on closed file") from None

    with pytest.raises(OutputError, match="No space left on device"), only_process_in(small_disk / "out"):
        write()


def test_a_full_disk_is_recognised_though_onnx_does_not_name_it(small_disk: Path) -> None:
    """ONNX writes as much of a file as there is room for, and then cannot read it."""
    names = ("x", "y")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 100]) for name in names]
    weight = numpy_helper.from_array(np.ones((100, 100), np.float32), "weight")  # 40 kB of the disk's 64
    node = helper.make_node("MatMul", ["x", "weight"], ["y"])
    graph = helper.make_graph([node], "product", values[:1], values[1:], [weight])
    onnx.save(helper.make_model(graph), small_disk / "fp32.onnx")
    with pytest.raises(OutputError, match="No space left on device"), explain_disk_errors(small_disk):
        quantize(small_disk / "fp32.onnx", small_disk / "int8.onnx")


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_read_only_disk_is_named_where_the_cache_is_on_it_too(
    rank: str, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_disk / "out").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(small_disk / "cache"))
    monkeypatch.setenv("RANK", rank)
    with (
        pytest.raises(OutputError, match=r"/out.*: Read-only file system\. Mount it for writing, then"),
        only_process_in(small_disk / "out"),
    ):
        write_atomically(small_disk / "out" / "result.json", "new")


def test_a_read_only_disk_says_what_to_do(small_disk: Path) -> None:
    (small_disk / "out").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with (
        pytest.raises(OutputError, match=r"Read-only file system\. Mount it for writing, then"),
        only_process_in(small_disk / "out"),
    ):
        write_atomically(small_disk / "out" / "result.json", "new")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.EIO, "Input/output error", "a"),
            "a: .* Check the disk",
        ),
        (OSError(errno.ENAMETOOLONG, "File name too long"), "Use a shorter --output-dir"),
        (
            PermissionError(errno.EACCES, "Permission denied", "a"),
            "a: Permission denied. Make it",
        ),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "Free some space"),
    ],
)
def test_each_error_of_a_disk_has_a_remedy(error: Exception, said: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=said), explain_disk_errors(tmp_path):
        raise error


@pytest.mark.parametrize("error", [RuntimeError("shapes"), FileNotFoundError(2, "none"), DataError("a")])
def test_other_errors_stay_what_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as raised, explain_disk_errors(tmp_path):
        raise error
    assert raised.value is error


@pytest.mark.parametrize("is_in_output", [True, False])
def test_a_file_elsewhere_that_may_not_be_read_is_no_cause(is_in_output: bool, tmp_path: Path) -> None:
    """As where a library does without its cache, and something else fails then."""
    name = tmp_path / "rows.arrow" if is_in_output else Path("/opt/cache/rows.arrow")
    expected = OutputError if is_in_output else ValueError

    def fall_back_and_fail() -> None:
        try:
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        except OSError:
            raise ValueError("shapes do not match") from None

    with pytest.raises(expected), explain_disk_errors(tmp_path):
        fall_back_and_fail()


def test_a_command_that_starts_over_is_not_said_to_continue(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match=r"run the same command again, or use another --npy\."),
        explain_disk_errors(tmp_path / "vectors.npy", option="--npy", continues=False),
    ):
        raise PermissionError(errno.EACCES, "Permission denied", "a")


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append(path.suffix or path.name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("renamed"), replace(old, new)))
    write_atomically(tmp_path / "a", "text")
    assert done == [".writing", "renamed", tmp_path.name]


@pytest.mark.parametrize("content", [b"othEr", b"oth", b""])
def test_a_damaged_file_is_not_whole(content: bytes, tmp_path: Path) -> None:
    write_sealed(tmp_path / "shard", lambda path: path.write_bytes(b"other"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"other")
    seal_folder(tmp_path / "folder")
    assert is_whole(tmp_path / "shard")
    assert is_whole_folder(tmp_path / "folder")
    (tmp_path / "shard").write_bytes(content)
    (tmp_path / "folder" / "file").write_bytes(content)
    assert not is_whole(tmp_path / "shard")
    assert not is_whole_folder(tmp_path / "folder")


@pytest.mark.parametrize("seal", ["", "[]", "null", '{"file": 1}', '{"file": '])
def test_a_damaged_seal_is_no_seal(seal: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"other")
    (tmp_path / "seal.json").write_text(seal)
    assert not is_whole_folder(tmp_path)


def artifact(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in (*names, "README.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name} of {folder.name}")
    (folder / "artifact.json").write_text(json.dumps({"files": dict.fromkeys(names, "")}))


def test_an_interrupted_replacement_of_an_artifact_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to leave a folder without artifact.json, which was refused for ever."""
    replace = Path.replace
    for moment in range(4):
        place = tmp_path / str(moment)
        place.mkdir()
        artifact(place / "old", "onnx/int8.onnx", "tokenizer.json")
        (place / "old" / "NOTES.txt").write_text("not ours")
        artifact(place / "new", "onnx/fp32.onnx", "tokenizer.json")
        left = [moment]

        def stop(path: Path, target: Path, left: list[int] = left) -> Path:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            replace_artifact(place / "old", place / "new")
        monkeypatch.setattr(Path, "replace", replace)
        check_artifact_folder(place / "old", overwrite=True)
        artifact(place / "again", "onnx/fp32.onnx", "tokenizer.json")
        replace_artifact(place / "old", place / "again")
        found = sorted(
            p.relative_to(place / "old").as_posix() for p in (place / "old").rglob("*") if p.is_file()
        )
        assert found == ["NOTES.txt", "README.md", "artifact.json", "onnx/fp32.onnx", "tokenizer.json"]
