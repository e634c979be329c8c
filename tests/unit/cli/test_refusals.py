"""Mistakes are refused at once: before torch is imported, and before the hub is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "datasets", "sklearn", "scipy", "pyarrow")
CALL = """
import json, sys, time
from understudy.cli.app import main
sys.argv = ["understudy", *{arguments!r}]
try:
    main()
except SystemExit as end:
    code = end.code
heavy = [name for name in {heavy!r} if name in sys.modules]
print(json.dumps(dict(code=code, heavy=heavy, seconds=time.process_time())))
"""
# The arguments, and what the message must say.
MISTAKES = {
    "recipe": ("run encoder --recipe desk-sst --output-dir o", "Did you mean desk-sst2"),
    "key": ("run encoder --recipe desk-sst2 --set sed=1 --output-dir o", "Did you mean 'seed'?"),
    "key in a block": (
        "finetune encoder --train rows.csv --split 0.5 --set data.max_row=3 --output-dir o",
        "data.max_row is not a key. Did you mean 'max_rows'?",
    ),
    "training argument": (
        "finetune encoder --train rows.csv --split 0.5 --set training.learning_rat=1 --output-dir o",
        "training.learning_rat is not an argument of TrainingArguments. Did you mean learning_rate",
    ),
    "value": (
        "finetune encoder --train rows.csv --split 0.5 --set training.learning_rate=fast --output-dir o",
        "training.learning_rate: Input should be a valid number",
    ),
    "shape": ("run encoder --student tiny --train rows.csv --split 0.5 --output-dir o", "tinybert-4l-312d"),
    "free shape": ("distill teacher --student 4l-312 --task sst2 --data glue --output-dir o", "like 6l-384d"),
    "width": (
        "distill encoder --student 4l-313d --task sst2 --data ./glue --output-dir o",
        "student.hidden_size of 313 must be a multiple of its 12 heads",
    ),
    "width of a run": (
        "run encoder --student 4l-313d --train rows.csv --split 0.5 --output-dir o",
        "student.hidden_size of 313 must be a multiple of its 12 heads",
    ),
    "corpus folder": ("general encoder --corpus ./c --output-dir o", "c has no result.json"),
    "text of a corpus": ("corpus text --tokenizer encoder --output-dir o", "text is neither a file nor a"),
    "text to mine": ("mine text --task sst2 --output-dir o", "text is neither a file nor a folder here"),
    "form to time": ("bench artifact:int8", "the artifact has fp32; got 'int8'"),
    "model to time": ("bench encoder ./encodr", "Did you mean encoder?"),
    "parts to leave out": ("ablate encoder --output-dir o", "Give both: --student"),
    "model": ("run ./encodr --train rows.csv --split 0.5 --output-dir o", "Did you mean encoder?"),
    "teacher": ("distill runs/teacher/x --task sst2 --output-dir o", "there is no folder runs/teacher/x"),
    "file": (
        "run encoder --train row.csv --split 0.5 --output-dir o",
        "row.csv does not exist. Did you mean 'rows.csv'?",
    ),
    "column": (
        "run encoder --train rows.csv --split 0.5 --text reviw --output-dir o",
        "there is no column 'reviw' for text",
    ),
    "columns": ("run encoder --train other.csv --split 0.5 --output-dir o", "cannot tell which column"),
    "method": ("distill teacher --method tinybird --task sst2 --output-dir o", "--method must be one of"),
    "method by its recipes": (
        "distill teacher --method pkd --task sst2 --output-dir o",
        "Did you mean 'patient'?",
    ),
    "task": ("finetune encoder --task sst3 --data glue --output-dir o", "Did you mean 'sst2'?"),
    "both dev and split": (
        "run encoder --train rows.csv --dev rows.csv --split 0.5 --output-dir o",
        "holds out training rows to score on, and --dev",
    ),
    "one column for both": (
        "run encoder --train rows.csv --split 0.5 --text review --label review --output-dir o",
        "text and label must be different columns; both are 'review'",
    ),
    "split in percent": (
        "run encoder --train rows.csv --split 10% --output-dir o",
        "10% is not between 0 and 1",
    ),
    "file as data": ("run encoder --data rows.csv --output-dir o", "For a file of your own: --train"),
    "no task": ("run encoder --output-dir o", "there is no task to learn. Give --train"),
    "misspelt shape": (
        "run encoder --train rows.csv --split 0.5 --student 4x312 --output-dir o",
        "got '4x312'. Did you mean 4l-312d?",
    ),
    "artifact as teacher": (
        "distill artifact --task sst2 --data glue --student 2l-8d --output-dir o",
        "artifact is an exported model, which cannot be trained",
    ),
    "artifact in a run": (
        "run artifact --train rows.csv --split 0.5 --student 2l-8d --output-dir o",
        "artifact is an exported model, which cannot be trained",
    ),
    "training argument in its stage": (
        "run encoder --train rows.csv --split 0.5 --set prediction.learning_rate=1 --output-dir o",
        "Did you mean prediction.training.learning_rate?",
    ),
    "layers": (
        "distill teacher --student 24l-384d --task sst2 --data ./glue --output-dir o",
        "a student of 24 layers cannot be cut from a model of 12",
    ),
    "training argument of no stage": (
        "run encoder --train rows.csv --split 0.5 --set max_steps=20 --output-dir o",
        "Did you mean that of a stage, e.g. prediction.training.max_steps",
    ),
    "folder without a model": (
        "run nothing --train rows.csv --split 0.5 --output-dir o",
        "there is no model in the folder nothing: it has no config.json",
    ),
    "hub name without a network": (
        "finetune bert-base-uncased --train rows.csv --split 0.5 --output-dir o",
        "neither a folder here nor in the hub's cache, and HF_HUB_OFFLINE is set",
    ),
    "no model": ("run --train rows.csv --split 0.5 --output-dir o", "a model must be given"),
    "full folder": (
        "run encoder --train rows.csv --split 0.5 --output-dir encoder",
        "encoder is not empty, and understudy did not write it",
    ),
    "no teacher": (
        "distill --train rows.csv --split 0.5 --output-dir o",
        "teacher must be given: a folder or a hub name",
    ),
    "another width": (
        "distill teacher --method patient --student 4l-312d --task sst2 --data ./glue --output-dir o",
        "patient.projection is none, and the student's width of 312 is not its teacher's 384",
    ),
    "model without a tokenizer": (
        "distill untold --train rows.csv --split 0.5 --output-dir o",
        "'untold' has no tokenizer: tokenizer.json, vocab.txt or the like is missing",
    ),
    "finetune without a model": (
        "finetune --train rows.csv --split 0.5 --output-dir o",
        "model must be given: an encoder",
    ),
    "augment without a model": (
        "augment --train rows.csv --output-dir o",
        "augment.model must be given",
    ),
    "wider than the teacher": (
        "distill teacher --student 4l-768d --task sst2 --data ./glue --output-dir o",
        "a cut can only be narrower than its source: the student's width is 768, the source's 384",
    ),
    "folder as a file": (
        "run encoder --train made --split 0.5 --output-dir o",
        "made is a folder, and rows are read from files",
    ),
    "separator": (
        "run encoder --train pipes.csv --split 0.5 --text review --label stars --output-dir o",
        "only one column was found, 'review|stars'. A .csv is read with commas, semicolons or tabs",
    ),
    "JSON lines": (
        "run encoder --train rows.json --split 0.5 --output-dir o",
        "rows.json has an object a line: rename it to .jsonl",
    ),
    "no header": (
        "run encoder --train other.csv --split 0.5 --text review --output-dir o",
        "If the file has no header, number its columns from 0",
    ),
    "finished folder": (
        "finetune encoder --train rows.csv --split 0.5 --output-dir finished",
        "finished holds a finished run. Use --overwrite",
    ),
    "full folder of a teacher": (
        "finetune encoder --train rows.csv --split 0.5 --output-dir encoder",
        "encoder is not empty, and understudy did not write it",
    ),
    "column of an augmentation": (
        "augment encoder --train rows.csv --text reviw --output-dir o",
        "there is no column 'reviw' for text",
    ),
    "augment": ("augment encodr --task sst2 --data ./glue --output-dir o", "glue does not exist"),
    "general": ("general ./encodr --corpus c --output-dir o", "Did you mean encoder?"),
    "corpus": ("corpus rows.csv --set corpus.colum=x --output-dir o", "Did you mean 'column'?"),
    "mine": ("mine rows.csv --task sst3 --output-dir o", "Did you mean 'sst2'?"),
    "mine without a model": ("mine rows.csv --task sst2 --output-dir o", "mine.encoder or a teacher must be"),
    "plan without a teacher": ("plan tinybert-classification", "teacher must be given: a fine-tuned model"),
    "plan without an encoder": ("plan finetune-classification", "model must be given: an encoder"),
    "figures to time": ("bench figures.json", "Times of different runs cannot be compared"),
    "evaluate": ("evaluate ./encodr --task sst2", "Did you mean encoder?"),
    "evaluate an artifact": ("evaluate artifact", "artifact is an artifact: its scores on the"),
    "export an artifact": ("export artifact --output-dir o", "artifact is an artifact already"),
    "full folder of an artifact": (
        "export encoder --task sst2 --output-dir encoder",
        "encoder is there already. It is not an artifact",
    ),
    "export": ("export encoder --task sst3 --output-dir o", "Did you mean 'sst2'?"),
    "folder as a recipe": ("plan made", "The recipe of that folder is made/recipe.yaml"),
    "model to compare with": (
        "evaluate encoder --task sst2 --data ./glue --against encoder/teacher",
        "--against: there is no folder encoder/teacher",
    ),
    "missing model to time": (
        "bench nope",
        "the model: nope is neither a folder here nor in the hub's cache",
    ),
    "threads": ("bench encoder --threads 0", "--threads must be whole numbers from 1 on"),
    "recipe of a plan": ("plan desk-sst", "Did you mean desk-sst2"),
    "key of a plan": ("plan desk-sst2 --set sed=1", "Did you mean 'seed'?"),
    "nothing to score on": ("run encoder --train rows.csv --output-dir o", "--split 0.1 to hold out a tenth"),
    "class weights": (
        "distill teacher --method joint --task stsb --set class_weights=balanced --output-dir o",
        "class_weights has no effect on regression",
    ),
}


# Rows are read with libraries that take a second to import; torch is not one of them.
ROW_MISTAKES = {
    "one class": (
        "finetune encoder --train one.csv --split 0.5 --output-dir o",
        "two or more different labels",
    ),
    "one class in a run": (
        "run encoder --train one.csv --split 0.5 --output-dir o",
        "two or more different labels",
    ),
    "bad rows": ("run encoder --train bad.csv --split 0.5 --output-dir o", "empty text (9)"),
    "no row to score on": (
        "run encoder --train rows.csv --split 0.01 --output-dir o",
        "--split 0.01 leaves no row of",
    ),
    "other labels than the teacher's": (
        "distill teacher --train rows.csv --dev other-labels.csv --output-dir o",
        "'2'",
    ),
    "other training labels than the teacher's": (
        "distill teacher --train named.csv --split 0.5 --output-dir o",
        "The labels of teacher and of the data must agree",
    ),
    "numbers as labels": (
        "finetune encoder --train numbers.csv --split 0.5 --output-dir o",
        "use --task regression to predict a number",
    ),
    "evaluate": ("evaluate teacher --task classification --dev bad.csv", "empty text (9)"),
    "split that is not given": (
        "evaluate teacher --task classification --dev rows.csv --split test",
        "data.test must be given",
    ),
}


ARTIFACT = {
    "format": 1,
    "task": "sst2",
    "kind": "classification",
    "fields": ["text"],
    "labels": ["negative", "positive"],
    "unanswerable": False,
    "max_length": 64,
    "stride": None,
    "truncation_side": "right",
    "padding": {"input_ids": 0},
    "inputs": ["input_ids", "attention_mask"],
    "outputs": ["logits"],
    "models": {"fp32": {"engine": "onnxruntime", "file": "onnx/model.onnx", "bytes": 1}},
    "default": "fp32",
    "parameters": 1,
    "files": {},
}


def call(arguments: list[str], folder: Path) -> tuple[dict[str, object], str]:
    code = CALL.format(arguments=arguments, heavy=HEAVY)
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    return json.loads(finished.stdout.splitlines()[-1]), finished.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    (folder / "encoder").mkdir()
    (folder / "encoder" / "config.json").write_text('{"model_type": "bert", "num_attention_heads": 12}')
    (folder / "encoder" / "vocab.txt").touch()
    (folder / "rows.csv").write_text("review,stars\ngood,1\nbad,0\n")
    (folder / "artifact").mkdir()
    (folder / "artifact" / "artifact.json").write_text(json.dumps(ARTIFACT))
    (folder / "other.csv").write_text("a,b,c\n1,2,3\n")
    (folder / "one.csv").write_text("review,stars\n" + "".join(f"film {n},1\n" for n in range(30)))
    (folder / "bad.csv").write_text("review,stars\n" + "".join(f",{n % 2}\nfilm {n},1\n" for n in range(9)))
    (folder / "other-labels.csv").write_text("review,stars\ngood,2\nbad,0\n")
    (folder / "numbers.csv").write_text("review,stars\n" + "".join(f"film {n},{n / 7}\n" for n in range(50)))
    (folder / "pipes.csv").write_text("review|stars\ngood|1\nbad|0\n")
    (folder / "rows.json").write_text('{"review": "good", "stars": 1}\n{"review": "bad", "stars": 0}\n')
    names = [f"film {n},{('good', 'bad')[n % 2]}\n" for n in range(30)]
    (folder / "named.csv").write_text("review,stars\n" + "".join(names))
    (folder / "nothing").mkdir()
    (folder / "made").mkdir()
    (folder / "made" / "recipe.yaml").write_text("task: sst2\n")
    (folder / "teacher").mkdir()
    (folder / "teacher" / "config.json").write_text(
        '{"model_type": "bert", "architectures": ["BertForSequenceClassification"], '
        '"num_attention_heads": 12, "num_hidden_layers": 12, "hidden_size": 384, '
        '"id2label": {"0": "0", "1": "1"}}'
    )
    shutil.copytree(folder / "teacher", folder / "untold")
    (folder / "teacher" / "vocab.txt").touch()
    (folder / "finished").mkdir()
    (folder / "finished" / "result.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def help_seconds(folder: Path) -> float:
    called, _ = call(["run", "--help"], folder)
    assert called["code"] == 0
    return float(str(called["seconds"]))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_before_torch_is_imported(name: str, folder: Path, help_seconds: float) -> None:
    arguments, message = MISTAKES[name]
    called, said = call(arguments.split(), folder)
    assert called["code"] == 2
    assert message in said
    assert called["heavy"] == []
    # A help page takes a third of a second; importing torch and transformers, 25 times that.
    assert float(str(called["seconds"])) < 6 * help_seconds
    assert not (folder / "o").exists()


@pytest.mark.parametrize("name", ROW_MISTAKES)
def test_bad_rows_are_refused_before_torch_is_imported(name: str, folder: Path, help_seconds: float) -> None:
    arguments, message = ROW_MISTAKES[name]
    called, said = call(arguments.split(), folder)
    assert called["code"] == 2
    assert message in said
    assert not {"torch", "transformers", "sklearn"} & set(called["heavy"])
    assert float(str(called["seconds"])) < 12 * help_seconds
    assert not (folder / "o").exists()
