"""`augment` over whole training sets: every kind, interrupted, and learnt from."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from kinds import EXAMPLES, write_classification
from processes import Command, run_command
from teaching import method_settings, train_teacher

import understudy
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import DataError, ModelError, RecipeError
from understudy.kinds.tasks import get_task
from understudy.stages import augment as stage

SMALL = {"augment.variants": 6, "augment.candidates": 5, "augment.max_length": 64}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "rows").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_is_augmented_and_read_again(kind: str, encoder: Path, tmp_path: Path) -> None:
    example = EXAMPLES[kind]
    file = str(example.write(tmp_path))
    result = understudy.augment(
        encoder, task=example.task, output_dir=tmp_path / "out", settings=SMALL | {"data.train": file}
    )
    counts = result.content["augmented"]
    written = rows_of(tmp_path / "out")
    originals = [row for row in written if row["variant"] is None]
    assert len(written) == counts["written"] > len(originals) == counts["rows"]
    assert counts["tried"] == len(written) - len(originals) + counts.get("duplicates", 0) + counts.get(
        "unchanged", 0
    )
    for row in written:
        assert bool(row["replaced"]) == (row["variant"] is not None)
    assert result.content["examples"]
    assert all(example["before"] != example["after"] for example in result.content["examples"])
    # The originals are the training set, and all of it is a training set again.
    task = get_task(example.task)
    plain = load_data(task, DataSettings(train=file), ["train"])
    again = load_data(task, DataSettings(augmented=str(tmp_path / "out"), dev=file), ["train", "dev"])
    assert again.labels == plain.labels
    assert again.reports["train"].num_kept == len(written)
    first = {row["source_row"]: place for place, row in enumerate(written) if row["variant"] is None}
    columns = [name for name in plain.splits["train"].column_names if name != "row"]
    for row in plain.splits["train"]:
        found = again.splits["train"][first[row["row"]]]
        assert {name: found[name] for name in columns} == {name: row[name] for name in columns}


def test_a_student_learns_from_augmented_rows(encoder: Path, tmp_path: Path) -> None:
    teacher = train_teacher(encoder, "classification", tmp_path)
    file = str(tmp_path / "rows.csv")
    understudy.augment(
        encoder, task="classification", output_dir=tmp_path / "more", settings=SMALL | {"data.train": file}
    )
    settings = method_settings(("soft_labels",), max_steps=5) | {
        "student.num_hidden_layers": 1,
        "data.train": file,
        "data.dev": file,
        "data.augmented": str(tmp_path / "more"),
    }
    result = understudy.distill(
        teacher, method="soft-labels", task="classification", output_dir=tmp_path / "out", settings=settings
    )
    assert result.content["counts"]["train"]["rows"] == len(rows_of(tmp_path / "more")) > 8
    # Rows that were augmented from the whole file contain those that are held out to score on.
    leaking = {**settings, "data.dev": None, "data.dev_share": 0.3}
    with pytest.raises(DataError, match=r"made from other training rows.*data\.dev_share=0\.3"):
        understudy.distill(
            teacher, method="soft-labels", task="classification", output_dir=tmp_path / "a", settings=leaking
        )
    (shard,) = (tmp_path / "more" / "rows").glob("*.parquet")
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="is not what understudy augment wrote"):
        understudy.distill(
            teacher, method="soft-labels", task="classification", output_dir=tmp_path / "b", settings=settings
        )


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "rows").glob("*.parquet"))}


def command(encoder: Path, file: Path, output: Path, *more: str) -> list[str]:
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    arguments = ["augment", str(encoder), "--task", "classification", "--set", f"data.train={file}"]
    return [*arguments, *settings, *more, "--output-dir", str(output)]


def small_shards() -> None:
    stage.ROWS_PER_SHARD = 40


@pytest.fixture
def many_rows(tmp_path: Path) -> Path:
    words = ["good", "bad", "great", "awful", "slow", "fast", "big", "small"]
    generator = random.Random(0)
    lines = ["text,label"]
    for number in range(1_000):
        text = " ".join(generator.choices(words, k=generator.randint(2, 12)))
        lines.append(f"the {text} film,{'pos' if number % 2 else 'neg'}")
    (tmp_path / "many.csv").write_text("\n".join(lines), "utf-8")
    return tmp_path / "many.csv"


@pytest.mark.parametrize("context", ["original", "sequential"])
def test_a_run_killed_again_and_again_has_the_rows_of_an_undisturbed_one(
    context: str, encoder: Path, many_rows: Path, tmp_path: Path
) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    more = ("--set", f"augment.context={context}")
    run_command(command(encoder, many_rows, tmp_path / "a", *more), environment, small_shards)
    generator = random.Random(context)
    for _ in range(5):
        before = len(contents(tmp_path / "b"))
        process = Command(command(encoder, many_rows, tmp_path / "b", *more), environment, small_shards)
        delay = generator.random() * 0.05
        process.kill_when(lambda before=before: len(contents(tmp_path / "b")) > before, delay)  # type: ignore[misc]
    run_command(command(encoder, many_rows, tmp_path / "b", *more), environment, small_shards)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert len(contents(tmp_path / "a")) == 25
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("a", "b")]
    assert results[0]["augmented"] == results[1]["augmented"]


def test_shards_of_any_size_hold_the_same_rows(
    encoder: Path, many_rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for size in (64, 1_000):
        monkeypatch.setattr(stage, "ROWS_PER_SHARD", size)
        settings = SMALL | {"data.train": str(many_rows)}
        understudy.augment(encoder, task="classification", output_dir=tmp_path / str(size), settings=settings)
        found.append(rows_of(tmp_path / str(size)))
    assert found[0] == found[1]


def test_a_seed_decides(encoder: Path, tmp_path: Path) -> None:
    file = str(write_classification(tmp_path))
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = SMALL | {"data.train": file, "seed": seed}
        understudy.augment(encoder, task="classification", output_dir=tmp_path / name, settings=settings)
        found.append([row["text"] for row in rows_of(tmp_path / name)])
    assert found[0] == found[1] != found[2]


def test_overwriting_makes_every_shard_anew(encoder: Path, tmp_path: Path) -> None:
    rows = {"data.train": str(write_classification(tmp_path))}
    output = tmp_path / "out"
    for variants, overwrite in ((2, False), (4, True)):
        settings = SMALL | rows | {"augment.variants": variants}
        understudy.augment(
            encoder, task="classification", output_dir=output, settings=settings, overwrite=overwrite
        )
    assert max(row["variant"] or 0 for row in rows_of(output)) == 3


def test_what_is_refused(encoder: Path, tmp_path: Path) -> None:
    teacher = train_teacher(encoder, "classification", tmp_path)
    files = {"data.train": str(tmp_path / "rows.csv")}

    def augment(model: Path | None = encoder, task: str = "classification", **more: Any) -> None:
        settings = files | more.pop("settings", {})
        understudy.augment(model, task=task, output_dir=tmp_path / "out", settings=settings, **more)

    with pytest.raises(RecipeError, match=r"augment\.model must be given"):
        augment(None)
    with pytest.raises(ModelError, match="must have a masked language model's head"):
        augment(teacher)
    with pytest.raises(RecipeError, match=r"augment\.entities has no effect on classification"):
        augment(settings={"augment.entities": "swap"})
    with pytest.raises(RecipeError, match="--workers has no effect with --engine local"):
        augment(workers=2)
    with pytest.raises(RecipeError, match="--engine must be one of local, ray"):
        augment(engine="spark")
    with pytest.raises(RecipeError, match="training has no effect on augmentation"):
        augment(settings={"training.seed": 1})
    with pytest.raises(DataError, match=r"augment\.vectors must be a file"):
        augment(settings={"augment.vectors": "none.txt"})
    with pytest.raises(ModelError, match=r"data\.max_length is 500|reads at most"):
        augment(settings={"augment.max_length": 500})
    assert not (tmp_path / "out").exists()
    with pytest.raises(RecipeError, match=r"augment has no effect here\. Run understudy augment first"):
        understudy.distill(
            teacher, output_dir=tmp_path / "out", student="1l-16d", settings={"augment.variants": 3}
        )
    with pytest.raises(DataError, match=r"data\.augmented must be a folder that understudy augment has"):
        understudy.distill(
            teacher, output_dir=tmp_path / "out", student="1l-16d", settings={"data.augmented": str(tmp_path)}
        )


def ray_workers(driver: int) -> list[psutil.Process]:
    """Processes of a driver's Ray that do the work; Ray writes what they run into their command line."""
    found = []
    for child in psutil.Process(driver).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "MapWorker" in " ".join(child.cmdline()):
                found.append(child)
    return found


def listening(driver: int) -> set[str]:
    """The addresses that a driver's Ray listens on."""
    found = set()
    for process in (psutil.Process(driver), *psutil.Process(driver).children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            connections = process.net_connections("tcp")
            found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    return found


def test_ray_makes_the_same_shards_though_its_workers_are_killed(
    encoder: Path, many_rows: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="the extra scale is not installed")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RAY_TMPDIR": "/tmp", "RAY_DEDUP_LOGS": "0"}
    run_command(command(encoder, many_rows, tmp_path / "a"), environment, small_shards)
    more = ("--engine", "ray", "--workers", "2")
    program = "from understudy.stages import augment\naugment.ROWS_PER_SHARD = 40\n"
    program += "from understudy.cli import main; main()"
    start = [sys.executable, "-c", program]
    with (tmp_path / "said.txt").open("wb") as said:
        process = subprocess.Popen(
            [*start, *command(encoder, many_rows, tmp_path / "b", *more)],
            stdout=said,
            stderr=said,
            env=environment,
        )
        kills = 0
        deadline = time.monotonic() + 400
        while process.poll() is None:
            assert time.monotonic() < deadline, (tmp_path / "said.txt").read_text("utf-8", "replace")
            made = len(contents(tmp_path / "b"))
            workers = ray_workers(process.pid)
            if kills < 2 and workers and made >= 2 + 8 * kills:
                addresses = {one.removeprefix("::ffff:") for one in listening(process.pid)}
                assert addresses == {"127.0.0.1"}  # whoever reaches a Ray can run code on it
                workers[0].kill()
                kills += 1
            time.sleep(0.05)
    assert process.returncode == 0, (tmp_path / "said.txt").read_text("utf-8", "replace")
    assert kills == 2
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
