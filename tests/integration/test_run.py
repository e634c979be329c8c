"""The whole way with tiny models: every stage, what is skipped, what is made again, and after kills."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from processes import Command, run_command
from safetensors.torch import load_file
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.distillation.agreement import resolve_distillation
from understudy.errors import ModelError, OutputError, PreflightError
from understudy.models.settings import check_teacher
from understudy.pipeline.estimate import estimate_training
from understudy.pipeline.preflight.checks import preflight
from understudy.pipeline.summary import constant_answers, guess_of_teacher, note_constant
from understudy.pipeline.teacher_int8 import export_teacher
from understudy.predictor import Predictor
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe

pytestmark = pytest.mark.usefixtures("short_timings")

STAGES = [
    "teacher",
    "augmented",
    "distilled",
    "evaluation",
    "artifact",
    "teacher-int8",
    "bench",
    "report.html",
]
FINISHED = [f"{name}/result.json" for name in STAGES if name not in ("artifact", "report.html")]
FINISHED += ["artifact/artifact.json", "report.html"]
TRAINING = {"per_device_train_batch_size": 8, "learning_rate": 5e-3, "report_to": "none", "logging_steps": 5}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> Path:
    """A whole run of a classification task, as a user's file."""
    folder = tmp_path_factory.mktemp("recipe")
    words = {"good": "pos", "great": "pos", "bad": "neg", "awful": "neg"}
    nouns = ("film", "movie", "cat", "dog", "<script>city</script>", "river")
    rows = [(f"the {noun} was {word}", label) for noun in nouns for word, label in words.items()]
    for name, part in (("train", rows), ("dev", rows[::2])):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *part])
    values = {
        "task": "classification",
        "method": "tinybert",
        "data": {"train": str(folder / "train.csv"), "dev": str(folder / "dev.csv"), "max_length": 32},
        "finetune": {"model": str(encoder), "training": {**TRAINING, "max_steps": 40}, "dropout": 0.0},
        "augment": {"model": str(encoder), "variants": 2},
        "student": {"shape": "1l-16d"},
        "intermediate": {"training": {**TRAINING, "max_steps": 10}},
        "prediction": {"training": {**TRAINING, "max_steps": 10}},
        "export": {"tolerance": 100.0},
    }
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(values), "utf-8")
    return file


@pytest.fixture(scope="module")
def finished(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "finished"
    done = CliRunner().invoke(app, ["run", "--recipe", str(recipe), "--output-dir", str(output), "--json"])
    assert done.exit_code == 0, done.exception
    content = json.loads(done.stdout)
    assert list(content["seconds"]) == STAGES
    # Was it worth it: in the table at the end and in words.
    assert "report.html" in done.stderr
    said = " ".join(done.stderr.split())
    faster = r"A student [\d.]+ times smaller( and (as fast|[\d.]+ times (faster|slower)))? "
    learnt_nothing = "The student has learnt nothing yet: it gives one answer to every row"
    assert re.search(learnt_nothing if "student" in content["constant"] else faster, said)
    assert ("The machine was busy while the models were timed" in said) == content["models"][-1]["busy"]["1"]
    assert "Rows: 24 train, 12 dev" in said
    assert re.search(r"Training takes about a minute here, until about \d\d:\d\d; augmentation, export", said)
    assert "All of it took" in said
    # The alternative stands beside the verdict, and what to do next comes last.
    verdict = content["verdict"]
    told = [done.stderr.index(verdict[name]) for name in ("sentence", "alternative")]
    assert told == sorted(told)
    if verdict["steps"]:
        assert done.stderr.rindex("Next:") > told[-1]
    assert all(f"│ {name}" in done.stderr for name in ("teacher ", "teacher, int8", "student, int8"))
    assert "student, fp32" not in done.stderr
    return output


def times(output: Path) -> dict[str, int]:
    return {name: (output / name).stat().st_mtime_ns for name in FINISHED if (output / name).exists()}


def changed(output: Path, before: dict[str, int]) -> set[str]:
    return {name for name, when in times(output).items() if when != before[name]}


def test_the_summary_says_what_the_stages_measured(finished: Path) -> None:
    content = json.loads((finished / "result.json").read_text())
    teacher, teacher_int8, student, fp32, int8 = content["models"]
    names = [one["model"] for one in content["models"]]
    assert names == ["teacher", "teacher, int8", "student", "student, fp32", "student, int8"]
    scored = json.loads((finished / "teacher" / "result.json").read_text())["scores"]["dev"]
    assert teacher["scores"] == scored
    artifact = json.loads((finished / "artifact" / "artifact.json").read_text())
    assert int8["scores"] == artifact["models"]["int8"]["scores"]["dev"]
    assert int8["bytes"] == artifact["models"]["int8"]["bytes"] < fp32["bytes"] <= 1.5 * student["bytes"]
    assert student["parameters"] == fp32["parameters"] < teacher["parameters"]
    exported = json.loads((finished / "teacher-int8" / "artifact.json").read_text())
    assert teacher_int8["scores"] == exported["models"]["int8"]["scores"]["dev"]
    assert teacher_int8["bytes"] == exported["models"]["int8"]["bytes"] < teacher["bytes"]
    assert teacher_int8["parameters"] == teacher["parameters"]
    difference = content["teacher_int8"]["difference"]["dev"]["accuracy"]
    lost = teacher_int8["scores"]["accuracy"]["value"] - teacher["scores"]["accuracy"]["value"]
    assert difference["value"] == pytest.approx(lost)
    assert difference["low"] <= difference["value"] <= difference["high"]
    for one in content["models"]:
        assert set(one["milliseconds"]) == set(one["cpu_milliseconds"]) == {"1", "32"}
        assert all((one["times_faster"][batch] is None) == one["busy"][batch] for batch in ("1", "32"))
    assert all(one in (1.0, None) for one in teacher["times_faster"].values())
    card = (finished / "artifact" / "README.md").read_text()
    assert "| teacher, int8 (onnxruntime) | 1 |" in card


def test_its_folder_stands_for_what_it_ships(finished: Path) -> None:
    content = json.loads((finished / "result.json").read_text())
    models = {one["model"]: one["scores"] for one in content["models"]}
    for name, form in ((finished, "int8"), (f"{finished}:fp32", "fp32")):
        scores = understudy.evaluate(name).content["scores"]["dev"]
        assert scores == models[f"student, {form}"]
    assert Predictor(finished).artifact == Predictor(finished / "artifact").artifact


def test_predictions_of_every_row_are_written_down(finished: Path) -> None:
    rows = [
        json.loads(line) for line in (finished / "evaluation" / "predictions.jsonl").read_text().splitlines()
    ]
    assert len(rows) == 12
    right = sum(row["prediction"] == row["label"] for row in rows) / len(rows)
    scores = json.loads((finished / "evaluation" / "result.json").read_text())["scores"]
    assert right == pytest.approx(scores["dev"]["accuracy"]["value"])
    assert {row["against"] for row in rows} <= {"pos", "neg"}
    answers = Predictor(finished / "artifact", model="fp32")([row["text"] for row in rows])
    assert [answer["label"] for answer in answers] == [row["prediction"] for row in rows]


class Page(HTMLParser):
    """Every tag is closed, and nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and value is not None:
                assert value.startswith(("#", "data:")), value
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def test_the_report_is_one_whole_page(finished: Path) -> None:
    text = (finished / "report.html").read_text("utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.headings == [
        "Student and teacher",
        "Answers",
        *(["Where they disagree"] if "Where they disagree" in text else []),
        "What it learnt",
        "What they look at",
        "Augmented rows",
        "Do it again",
    ]
    assert "<script" not in text
    assert text.count("<svg") >= 7
    assert 'aria-label="accuracy with 95 % intervals"' in text
    verdict = json.loads((finished / "result.json").read_text())["verdict"]
    assert html.escape(verdict["alternative"]) in text
    assert len(set(re.findall(r'id="([^"]+)"', text))) == len(re.findall(r'id="([^"]+)"', text))


def test_again_nothing_is_made(recipe: Path, finished: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, seconds = times(finished), json.loads((finished / "result.json").read_text())["seconds"]
    left = finished / "teacher" / "training" / "checkpoint-3"  # interrupted after its result was written
    left.mkdir(parents=True)
    with caplog.at_level("INFO", logger="understudy"):
        understudy.run(recipe=recipe, output_dir=finished)
    assert "This call took" in caplog.text
    assert not left.exists()
    assert times(finished) == before
    assert list(seconds) == STAGES
    assert json.loads((finished / "result.json").read_text())["seconds"] == seconds


def test_columns_that_were_guessed_may_be_named_later(recipe: Path, finished: Path) -> None:
    before = times(finished)
    named = {"data.columns": {"text": "text", "label": "label"}}
    understudy.run(recipe=recipe, output_dir=finished, settings=named)
    assert times(finished) == before


def test_a_whole_run_is_no_teacher(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=rf"is a whole run\. Its teacher is {finished / 'teacher'}"):
        understudy.distill(finished, student="1l-16d", output_dir=tmp_path / "out")
    with pytest.raises(ModelError, match="is a whole run"):
        understudy.run(finished, output_dir=tmp_path / "out")
    check_teacher(finished.parent)  # a folder of runs is none


@pytest.mark.parametrize("name", ["teacher", "distilled/student"])
def test_a_damaged_model_is_refused(name: str, recipe: Path, finished: Path) -> None:
    file = finished / name / "model.safetensors"
    data = file.read_bytes()
    try:
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(ModelError, match=rf"{name} is not the model that this run made: it is damaged"):
            understudy.run(recipe=recipe, output_dir=finished)
    finally:
        file.write_bytes(data)
    understudy.run(recipe=recipe, output_dir=finished)


def test_a_teacher_that_cannot_be_exported_is_named_and_the_run_goes_on(
    recipe: Path, finished: Path, tmp_path: Path
) -> None:
    run = understudy.run(recipe=recipe, output_dir=finished)
    folder = finished / "teacher-int8"
    shutil.rmtree(folder)
    (tmp_path / "config.json").write_text("{}")
    export_teacher(str(tmp_path), finished, recipe=finished / "distilled" / "recipe.yaml")
    assert [path.name for path in folder.iterdir()] == ["result.json"]
    failed = understudy.run(recipe=recipe, output_dir=finished)
    names = [one.name for one in failed.models]
    assert names == ["teacher", "student", "student, fp32", "student, int8"]
    said = failed.content["verdict"]["alternative"]
    assert said.startswith("The teacher in int8 is no alternative: ")
    assert html.escape(said) in (finished / "report.html").read_text("utf-8")
    assert failed.verdict == run.verdict


def test_more_steps_are_estimated_to_take_longer(recipe: Path, tmp_path: Path) -> None:
    def estimate(steps: int) -> float:
        settings = {"finetune.training.max_steps": steps, "prediction.training.max_steps": steps}
        planned, _ = preflight(resolve_distillation(load_recipe(recipe, settings)), tmp_path / "out")
        seconds = estimate_training(planned, length=8)
        assert seconds is not None
        return seconds

    assert 5 * estimate(100) < estimate(10_000)  # a hundred times the steps; a measured step varies


def test_the_teacher_in_int8_can_be_left_out(recipe: Path, finished: Path) -> None:
    before = times(finished)
    settings = {"export.teacher_int8": False}
    run = understudy.run(recipe=recipe, output_dir=finished, settings=settings)
    assert changed(finished, before) <= {"bench/result.json", "report.html"}
    assert "teacher-int8" not in run.content["seconds"]
    assert [one.name for one in run.models] == ["teacher", "student", "student, fp32", "student, int8"]
    assert run.content["teacher_int8"] is run.content["verdict"]["alternative"] is None


def test_what_a_setting_touches_is_made_again_and_nothing_else(
    recipe: Path, finished: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = times(finished)
    with caplog.at_level("INFO", logger="understudy"):
        understudy.run(recipe=recipe, output_dir=finished, settings={"export.tolerance": 99.0})
    # The artifact and the timing. The report is removed first.
    assert caplog.text.count("again, because its settings, data or models have changed") == 2
    assert (
        {"artifact/artifact.json"}
        <= changed(finished, before)
        <= {"artifact/artifact.json", "bench/result.json", "report.html"}
    )
    before = times(finished)
    layers = finished / "distilled" / "intermediate" / "result.json"
    layers_before = layers.stat().st_mtime_ns
    settings = {"export.tolerance": 99.0, "prediction.training.max_steps": 11}
    student = understudy.run(recipe=recipe, output_dir=finished, settings=settings)
    made = changed(finished, before)
    assert made >= {"distilled/result.json", "evaluation/result.json", "artifact/artifact.json"}
    assert not made & {"teacher/result.json", "augmented/result.json", "teacher-int8/result.json"}
    # Predictions were learnt anew, from the same layers.
    assert layers.stat().st_mtime_ns == layers_before
    assert json.loads((finished / "distilled" / "prediction" / "result.json").read_text())["steps"] == 11
    assert load_recipe(finished / "distilled" / "recipe.yaml").prediction.training["max_steps"] == 11
    assert student("the film was good")["label"] in ("pos", "neg")
    assert "accuracy" in repr(student)


def test_a_changed_file_is_noticed(recipe: Path, finished: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(recipe.read_text())
    train = tmp_path / "train.csv"
    train.write_text(Path(values["data"]["train"]).read_text() + "the dog was very good,pos\n")
    settings = {"data.train": str(train), "prediction.training.max_steps": 11}
    before = times(finished)
    understudy.run(recipe=recipe, output_dir=finished, settings=settings)
    assert changed(finished, before) >= {
        f"{name}/result.json" for name in ("teacher", "augmented", "distilled")
    }


def test_killed_at_every_stage_it_ends_in_the_same_student(recipe: Path, tmp_path: Path) -> None:
    """Finished work is not done again, and what comes out is equal bit for bit."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"

    def command(output: Path) -> list[str]:
        return ["run", "--recipe", str(recipe), "--output-dir", str(output)]

    run_command(command(undisturbed), environment)
    points = ["teacher/training", "augmented/rows", "distilled/intermediate/result.json", "evaluation",
              "artifact.writing", "teacher-int8.writing", "teacher-int8/artifact.json",
              "bench/result.json"]  # fmt: skip
    done: dict[str, int] = {}
    for point in points:
        Command(command(disturbed), environment).kill_when((disturbed / point).exists)
        assert not (disturbed / "result.json").exists()
        assert times(disturbed).items() >= done.items()
        done = times(disturbed)
    run_command(command(disturbed), environment)
    assert times(disturbed).items() >= done.items()
    expected, got = (
        load_file(folder / "distilled" / "student" / "model.safetensors")
        for folder in (undisturbed, disturbed)
    )
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    one, other = (json.loads((folder / "result.json").read_text()) for folder in (undisturbed, disturbed))
    assert [model["scores"] for model in one["models"]] == [model["scores"] for model in other["models"]]
    files = [json.loads((folder / "artifact" / "artifact.json").read_text())["files"]
             for folder in (undisturbed, disturbed)]  # fmt: skip
    assert files[0] == files[1]


def test_a_script_needs_no_guard(finished: Path, tmp_path: Path) -> None:
    """Nothing runs a user's script again in other processes, and it hears how far the work is."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys, understudy\nprint('once')\ntimed = understudy.bench([{str(finished / 'artifact')!r}], "
        "lengths=[8], batches=[1])\nprint(len(timed.content['rows']))\n"
    )
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    assert done.stdout == "once\n2\n"


def test_a_student_that_says_one_thing_is_not_sold(tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    rows = [
        {"split": "dev", "label": label, "prediction": "neg", "against": label} for label in ("pos", "neg")
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ((who, answer),) = constant_answers(file, "dev").items()
    note = note_constant(who, answer)
    assert note.startswith('The student gives the same answer to every row: "neg".')
    assert constant_answers(file, "test") == {}


@pytest.mark.parametrize(
    ("right", "is_guess"),
    # Of 100 rows 60 are "neg"; right of "neg" and of "pos".
    [((60, 0), True), ((36, 22), True), ((54, 16), False), ((60, 12), False)],
)
def test_a_teacher_is_compared_with_one_answer(
    right: tuple[int, int], is_guess: bool, tmp_path: Path
) -> None:
    labels = ["neg"] * 60 + ["pos"] * 40
    other = {"neg": "pos", "pos": "neg"}
    known = [*range(right[0]), *range(60, 60 + right[1])]
    rows = [
        {"split": "dev", "label": label, "against": label if place in known else other[label]}
        for place, label in enumerate(labels)
    ]
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = guess_of_teacher(file, "dev", Recipe.from_mapping({"task": "classification"}))
    assert (found is not None) == is_guess
    if found is not None:
        assert found == {"right": sum(right) / 100, "answer": "neg", "share": 0.6}


def test_a_teacher_that_gives_every_row_no_label_guesses(tmp_path: Path) -> None:
    rows = [{"split": "dev", "label": label, "against": []} for label in ([], [], ["a"], ["a", "b"], [])]
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = guess_of_teacher(file, "dev", Recipe.from_mapping({"task": "multi-label"}))
    assert found == {"right": 0.6, "answer": "no label", "share": 0.6}


def test_a_good_teacher_of_a_rare_class_does_not_guess(tmp_path: Path) -> None:
    rows = [{"split": "dev", "label": "ham", "against": "ham"}] * 95
    rows += [
        {"split": "dev", "label": "spam", "against": said} for said in ("ham", "ham", "spam", "spam", "spam")
    ]
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert guess_of_teacher(file, "dev", Recipe.from_mapping({"task": "classification"})) is None


def test_a_teacher_is_told_from_an_encoder(
    recipe: Path, finished: Path, tmp_path: Path, encoder: Path
) -> None:
    """What is fine-tuned teaches as it is."""
    arguments = [str(finished / "teacher"), "--recipe", str(recipe), "--output-dir", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["run", *arguments, "--check"])
    assert done.exit_code == 0, done.exception
    assert "few_rows" not in done.stderr  # they are augmented
    assert "few_dev_rows" in done.stderr
    assert not (tmp_path / "run").exists()


def test_your_own_file_needs_no_settings(encoder: Path, tmp_path: Path) -> None:
    """The shipped recipe for such files is found, and the columns are named by options."""
    rows = "".join(f"the {noun} was {word},{word}\n" for noun in "abcdefghij" for word in ("good", "bad"))
    (tmp_path / "rows.csv").write_text("review,stars\n" + rows, "utf-8")
    given = ["run", str(encoder), "--train", str(tmp_path / "rows.csv"), "--split", "0.3", "--text", "review"]
    given += ["--label", "stars", "--student", "1l-16d", "--check", "--output-dir", str(tmp_path / "out")]
    checked = CliRunner().invoke(app, given)
    assert checked.exit_code == 0, checked.stderr
    assert "Labels (2): bad, good" in checked.stderr
    assert not (tmp_path / "out").exists()


def test_errors_stop_it_before_anything_is_written(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="layer_map"):
        understudy.run(
            recipe=recipe, output_dir=tmp_path / "run", settings={"intermediate.layer_map": [1, 2, 3]}
        )
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(OutputError, match="understudy did not write it"):
        understudy.run(recipe=recipe, output_dir=tmp_path / "mine")


def test_distill_returns_a_student_to_call(
    finished: Path, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook: files in a mapping, no folder named, a cell run twice."""
    monkeypatch.chdir(tmp_path)
    data = {name: yaml.safe_load(recipe.read_text())["data"][name] for name in ("train", "dev")}
    settings: dict[str, Any] = {
        "data.max_length": 32,
        **{f"{stage}.training.{key}": value for stage in ("intermediate", "prediction")
           for key, value in {**TRAINING, "max_steps": 3}.items()},
        "prediction.search": None,
    }  # fmt: skip

    def cell() -> Any:
        return understudy.distill(finished / "teacher", data=data, student="1l-16d", settings=settings)

    student = cell()
    assert student.output_dir == tmp_path / "students" / "teacher"
    texts = ["the film was good", "the cat was awful"]
    answers = student(texts)
    assert [set(answer["probabilities"]) for answer in answers] == [{"neg", "pos"}] * 2
    from transformers import pipeline

    plain = pipeline("text-classification", str(student.output_dir / "student"))
    assert [answer["label"] for answer in answers] == [one["label"] for one in plain(texts)]
    for answer, one in zip(answers, plain(texts), strict=True):
        assert answer["probabilities"][one["label"]] == pytest.approx(one["score"], abs=1e-5)
    before = (student.output_dir / "result.json").stat().st_mtime_ns
    assert cell().scores == student.scores
    assert (student.output_dir / "result.json").stat().st_mtime_ns == before
    with pytest.raises(OutputError, match="another recipe"):
        understudy.distill(finished / "teacher", data=data, student="1l-32d", settings=settings)
