"""`general` from a tiny teacher: on one process and two, killed in the middle, and what comes of it."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file
from teaching import DISTIL, QUIET, train_teacher
from transformers import AutoModel

import understudy
from understudy.data.corpus import TRAIN, open_corpus
from understudy.errors import DataError, ModelError, OutputError, RecipeError

LEARN: dict[str, Any] = {
    "student": {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2},
    "dropout": 0.0,
    "general.training": {
        **QUIET,
        "per_device_train_batch_size": 8,
        "learning_rate": 5e-3,
        "logging_steps": 1,
        "max_steps": 60,
    },
}


@pytest.fixture(scope="module")
def corpus(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("general")
    generator = random.Random(0)
    words = ["the", "cat", "dog", "runs", "sleeps", "river", "in", "city", "a", "very", "big", "film"]
    documents = [
        ". ".join(" ".join(generator.choices(words, k=generator.randrange(2, 9))) for _ in range(12))
        for _ in range(70)
    ]
    (folder / "text.txt").write_text("\n\n".join(documents))
    settings = {"corpus.max_length": 32, "corpus.held_out": 0.2, "corpus.shard_megabytes": 0.005}
    understudy.corpus(
        [folder / "text.txt"], tokenizer=encoder, output_dir=folder / "corpus", settings=settings
    )
    return folder / "corpus"


def learn(encoder: Path, corpus: Path, output: Path, settings: dict[str, Any]) -> dict[str, Any]:
    return understudy.general(encoder, corpus=corpus, output_dir=output, settings=settings).content


def command(encoder: Path, corpus: Path, output: Path, settings: dict[str, Any]) -> list[str]:
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    return ["general", str(encoder), "--corpus", str(corpus), *options, "--output-dir", str(output)]


def weights(output: Path) -> dict[str, torch.Tensor]:
    found = load_file(output / "student" / "model.safetensors")
    return found | load_file(output / "student" / "projections.safetensors")


def test_a_student_comes_nearer_at_every_layer_and_starts_a_task(
    encoder: Path, corpus: Path, tmp_path: Path
) -> None:
    settings = LEARN | {
        "general.training.max_steps": 150,
        "general.training.eval_strategy": "steps",
        "general.training.eval_steps": 50,
    }
    content = learn(encoder, corpus, tmp_path / "general", settings)
    assert list(content["held_out"]) == ["embeddings", "attention_1", "hidden_1"]
    assert all(figure["last"] < 0.7 * figure["first"] for figure in content["held_out"].values())
    blocks = content["corpus"]["blocks"]["train"]
    assert content["epochs"] == pytest.approx(150 * 8 / blocks, abs=1e-3)
    assert content["layer_map"] == [2]
    lines = list(csv.DictReader((tmp_path / "general" / "held_out.csv").read_text().splitlines()))
    assert [int(line["step"]) for line in lines] == [50, 100, 150]
    for name, figure in content["held_out"].items():
        assert float(lines[-1][name]) == pytest.approx(figure["last"], rel=1e-5)
    student = AutoModel.from_pretrained(tmp_path / "general" / "student")
    assert student.config.num_hidden_layers == 1
    # And on: a general student is where another run, or a task's, may start.
    more = LEARN | {"student": {"model": str(tmp_path / "general" / "student")}}
    again = learn(encoder, corpus, tmp_path / "again", more)
    for name, figure in content["held_out"].items():  # with its projections: from where it ended
        assert again["held_out"][name]["first"] == pytest.approx(figure["last"], rel=1e-5)


def test_a_cut_student_starts_nearer(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    few = LEARN | {"general.training.max_steps": 2}
    drawn = learn(encoder, corpus, tmp_path / "drawn", few)
    cut = learn(encoder, corpus, tmp_path / "cut", few | {"student": {**LEARN["student"], "init": "cut"}})
    first = {name: run["held_out"]["embeddings"]["first"] for name, run in (("cut", cut), ("drawn", drawn))}
    assert first["cut"] < 0.9 * first["drawn"]


def test_a_general_student_that_was_cut_is_fitted_to_the_teacher_of_its_task(
    encoder: Path, corpus: Path, tmp_path: Path
) -> None:
    few = LEARN | {"general.training.max_steps": 2}
    learn(encoder, corpus, tmp_path / "cut", few | {"student": {**LEARN["student"], "init": "cut"}})
    learn(encoder, corpus, tmp_path / "drawn", few)
    teacher = train_teacher(encoder, "classification", tmp_path)

    def first_hidden(start: str, **student: Any) -> float:
        """The first held-out loss of the hidden states in a task."""
        steps = {f"{stage}.training.max_steps": 1 for stage in ("intermediate", "prediction")}
        settings = DISTIL | steps | {"student": {"model": str(tmp_path / start / "student"), **student}}
        name = f"{start}-{len(list(tmp_path.iterdir()))}"
        result = understudy.distill(teacher, output_dir=tmp_path / name, settings=settings)
        first: float = result.content["stages"]["intermediate"]["held_out"]["hidden_1"]["first"]
        return first

    assert first_hidden("cut") < 0.9 * first_hidden("cut", fit=False)
    assert first_hidden("drawn") == first_hidden("drawn", fit=False)
    with pytest.raises(RecipeError, match="needs a general student that was cut"):
        first_hidden("drawn", fit=True)


def test_a_corpus_without_second_segments_is_told(
    encoder: Path, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = LEARN | {"general.training.max_steps": 1}
    learn(encoder, corpus, tmp_path / "single", few)
    assert "corpus.pairs=true" in caplog.text
    caplog.clear()
    understudy.corpus(
        [corpus.parent / "text.txt"],
        tokenizer=encoder,
        output_dir=tmp_path / "corpus",
        settings={"corpus.max_length": 32, "corpus.pairs": True},
    )
    learn(encoder, tmp_path / "corpus", tmp_path / "pairs", few)
    learn(encoder, corpus, tmp_path / "cut", few | {"student": {**LEARN["student"], "init": "cut"}})
    assert "corpus.pairs=true" not in caplog.text


def launch(
    script: Path, encoder: Path, corpus: Path, output: Path, settings: dict[str, Any], log: Path
) -> list[str]:
    """Two processes, each of which writes down the blocks it reads."""
    script.write_text(
        "import os, sys\n"
        "from understudy.training.order import EndlessRows\n"
        "read = EndlessRows.__getitem__\n"
        "def read_and_log(self, place):\n"
        "    row = read(self, place)\n"
        f"    with open(f'{log}/{{os.getppid()}}-{{os.environ[\"RANK\"]}}', 'a') as file:\n"
        "        print(place, row['row'], file=file)\n"
        "    return row\n"
        "EndlessRows.__getitem__ = read_and_log\n"
        "from understudy.cli import main\n"
        "main()\n"
    )
    distributed = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*distributed, str(script), *command(encoder, corpus, output, settings)]


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def test_two_processes_learn_what_one_learns(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    learn(encoder, corpus, tmp_path / "one", LEARN | {"general.training.max_steps": 50})
    settings = LEARN | {
        "general.training.max_steps": 50,
        "general.training.per_device_train_batch_size": 4,
    }
    subprocess.run(
        launch(tmp_path / "main.py", encoder, corpus, tmp_path / "two", settings, log),
        check=True,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=300,
    )
    one, two = (
        [
            float(line["loss"])
            for line in csv.DictReader((tmp_path / name / "losses.csv").read_text().splitlines())
        ]
        for name in ("one", "two")
    )
    assert len(one) == 50
    assert one == pytest.approx(two, rel=1e-5)


def test_two_processes_killed_twice_end_with_the_same_bits_and_every_block_once(
    encoder: Path, corpus: Path, tmp_path: Path
) -> None:
    _, blocks = open_corpus(corpus)
    num_blocks, batch = len(blocks[TRAIN]), 8
    steps = 2 * num_blocks // batch  # two epochs, but for a last part of a batch
    settings = LEARN | {
        "general.training.num_train_epochs": 2,
        "general.training.max_steps": None,
        "general.training.per_device_train_batch_size": batch // 2,
        "general.training.save_strategy": "steps",
        "general.training.save_steps": 5,
    }
    del settings["general.training"]["max_steps"]
    logs = {name: tmp_path / f"log-{name}" for name in ("undisturbed", "disturbed")}
    commands = {}
    for name, log in logs.items():
        log.mkdir()
        commands[name] = launch(tmp_path / f"{name}.py", encoder, corpus, tmp_path / name, settings, log)
    subprocess.run(commands["undisturbed"], check=True, capture_output=True, env=ENVIRONMENT, timeout=300)
    for rank, step in ((1, 10), (0, 25)):
        process = subprocess.Popen(
            commands["disturbed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
        )
        seal = tmp_path / "disturbed" / "training" / f"checkpoint-{step}" / "seal.json"
        deadline = time.monotonic() + 300
        while not seal.exists():
            assert process.poll() is None, f"the run ended before step {step}"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        children = psutil.Process(process.pid).children()
        victim = next(child for child in children if child.environ().get("RANK") == str(rank))
        victim.send_signal(signal.SIGKILL)
        assert process.wait(timeout=120) != 0  # the other process is stopped too
        assert not (tmp_path / "disturbed" / "result.json").exists()
    finished = subprocess.run(
        commands["disturbed"], check=True, capture_output=True, env=ENVIRONMENT, text=True, timeout=300
    )
    assert "Continuing from" in finished.stderr
    expected, got = weights(tmp_path / "undisturbed"), weights(tmp_path / "disturbed")
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    # The blocks that were read, by place in the whole sequence.
    runs: dict[str, dict[int, int]] = {}
    for file in sorted(logs["disturbed"].iterdir(), key=lambda file: file.stat().st_mtime):
        places = dict(map(int, line.split()) for line in file.read_text().splitlines())
        run = runs.setdefault(file.name.split("-")[0], {})
        assert not run.keys() & places.keys()  # the processes share them
        run |= places
    assert len(runs) == 3
    everything: dict[int, int] = {}
    for run in runs.values():  # each goes on at a checkpoint's next block, and says the same of every place
        start = min(run)
        assert start % (5 * batch) == 0
        assert all(everything.get(place, row) == row for place, row in run.items())
        assert set(range(start)) <= everything.keys()
        everything |= run
    assert sorted(everything) == list(range(steps * batch))
    first_epoch = [everything[place] for place in range(num_blocks)]
    second_epoch = [everything[place] for place in range(num_blocks, steps * batch)]
    assert sorted(first_epoch) == list(range(num_blocks))
    assert len(set(second_epoch)) == len(second_epoch)
    assert first_epoch[: len(second_epoch)] != second_epoch


def test_a_run_goes_on_with_another_number_of_processes(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    """At an epoch's start or elsewhere, as long as all batches together are as large as before."""
    log = tmp_path / "log"
    log.mkdir()
    settings = LEARN | {"general.training.save_strategy": "steps", "general.training.save_steps": 20}
    learn(encoder, corpus, tmp_path / "one", settings)
    two = settings | {"general.training.per_device_train_batch_size": 4}
    process = subprocess.Popen(
        launch(tmp_path / "main.py", encoder, corpus, tmp_path / "both", two, log),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    seal = tmp_path / "both" / "training" / "checkpoint-20" / "seal.json"
    deadline = time.monotonic() + 300
    while not seal.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    for child in psutil.Process(process.pid).children():
        child.kill()
    process.wait(timeout=120)
    with pytest.raises(OutputError, match="unfinished run on other data"):  # half as large a batch
        learn(encoder, corpus, tmp_path / "both", two)
    learn(encoder, corpus, tmp_path / "both", settings)
    expected, got = weights(tmp_path / "one"), weights(tmp_path / "both")
    assert all(torch.allclose(expected[name], got[name], atol=1e-4) for name in expected)


def test_what_is_refused(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    def general(settings: dict[str, Any] = LEARN, **more: Any) -> None:
        options = {"teacher": encoder, "corpus": corpus, "output_dir": tmp_path / "out"} | more
        understudy.general(settings=settings, **options)

    with pytest.raises(RecipeError, match="teacher must be given"):
        general(teacher=None)
    with pytest.raises(RecipeError, match=r"general\.corpus must be given"):
        general(corpus=None)
    with pytest.raises(DataError, match="understudy corpus has finished"):
        general(corpus=tmp_path)
    with pytest.raises(RecipeError, match=r"general\.training\.load_best_model_at_end cannot be set"):
        general(LEARN | {"general.training.load_best_model_at_end": True})
    with pytest.raises(RecipeError, match=r"save_strategy cannot be epoch: .* Use steps, and save_steps"):
        general(LEARN | {"general.training.save_strategy": "epoch"})
    with pytest.raises(RecipeError, match=r"general\.relation_heads: student and teacher have 4 and 2 heads"):
        general(LEARN | {"student.num_attention_heads": 4})
    with pytest.raises(RecipeError, match="corpus has no effect with a block general:"):
        general(LEARN | {"corpus.max_length": 64})
    with pytest.raises(RecipeError, match="task has no effect with a block general:"):
        general(LEARN | {"task": "mrpc"})
    with pytest.raises(RecipeError, match="teacher has no effect without a method"):
        general({}, recipe="finetune-mrpc", corpus=None)
    with pytest.raises(DataError, match="do not fill one batch"):
        general(
            LEARN
            | {
                "general.training.max_steps": -1,
                "general.training.num_train_epochs": 0.01,
                "general.training.per_device_train_batch_size": 64,
            }
        )
    with pytest.raises(ModelError, match="not a folder"):
        general(teacher="./none")
    assert not (tmp_path / "out").exists()


def test_another_tokenizer_is_told(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(encoder, tmp_path / "other")
    file = tmp_path / "other" / "tokenizer.json"
    file.write_text(file.read_text().replace('"lowercase": true', '"lowercase": false'))
    with pytest.raises(DataError, match="was made with another tokenizer"):
        learn(tmp_path / "other", corpus, tmp_path / "out", LEARN)
