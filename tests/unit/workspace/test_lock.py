"""Two processes never write to one output folder at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import understudy
from understudy.errors import OutputError
from understudy.pipeline.run import run_from_recipe
from understudy.recipe.recipe import Recipe
from understudy.stages.augment import augment_from_recipe
from understudy.stages.corpus import corpus_from_recipe
from understudy.stages.distill import distill_from_recipe
from understudy.stages.finetune import finetune_from_recipe
from understudy.stages.general import general_from_recipe
from understudy.stages.mine import mine_from_recipe
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
    assert (tmp_path / ".out.lock").exists()
    with only_process_in(tmp_path / "out"):
        pass
    assert not list(tmp_path.iterdir())


def test_an_error_inside_gives_the_folder_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), only_process_in(tmp_path):
        raise ValueError("inside")
    with only_process_in(tmp_path):
        pass


def test_a_process_with_another_cache_is_seen(
    other: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache-of-another-container"))
    with (
        pytest.raises(OutputError, match=f"in use by process {other.pid}"),
        only_process_in(tmp_path / "out"),
    ):
        pass


STAGES = (
    augment_from_recipe,
    corpus_from_recipe,
    distill_from_recipe,
    finetune_from_recipe,
    general_from_recipe,
    mine_from_recipe,
    run_from_recipe,
)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_every_stage_refuses_a_folder_in_use_also_with_overwrite(
    stage: Callable[..., Any], other: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "recipe.yaml").write_text("written by the other", "utf-8")
    with pytest.raises(OutputError, match="in use"):
        stage(Recipe(), tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "recipe.yaml").read_text("utf-8") == "written by the other"


@pytest.mark.parametrize("name", ["export", "evaluate"])
def test_so_do_commands_without_a_recipe(
    name: str, other: subprocess.Popen[str], encoder: Path, tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match="in use"):
        getattr(understudy, name)(encoder, task="sst2", output_dir=tmp_path / "out")
    with pytest.raises(OutputError, match="in use"):
        understudy.bench([encoder], output_dir=tmp_path / "out")


def test_where_no_file_can_be_made_the_cache_has_the_lock(tmp_path: Path) -> None:
    name = "n" * 252  # with `.lock` it is too long
    with only_process_in(tmp_path / name):
        assert not list(tmp_path.iterdir())
        command = [sys.executable, "-c", HOLD, str(tmp_path / name)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert f"in use by process {os.getpid()}" in refused.stderr


def test_folders_that_were_made_for_a_lock_are_removed_if_nothing_was_written(tmp_path: Path) -> None:
    with only_process_in(tmp_path / "a" / "b" / "out"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not list(tmp_path.iterdir())
    with only_process_in(tmp_path / "a" / "out"):
        (tmp_path / "a" / "out").mkdir()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]
