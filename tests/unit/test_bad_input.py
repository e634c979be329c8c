"""What users get wrong, and what they are told: the file, line or key, and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import DataError, RecipeError, UnderstudyError
from understudy.kinds.tasks import get_task
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe

GOOD = "good film\t1\nbad film\t0\n"


def squad(context: str = "A cat.", question: str = "Who?", text: str = "cat", start: int = 2) -> str:
    answers = [{"text": text, "answer_start": start}]
    paragraph = {"context": context, "qas": [{"id": "q7", "question": question, "answers": answers}]}
    return json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]})


def choice(**changes: Any) -> str:
    row = {"context": "A cat.", "question": "Who?", "choices": ["cat", "dog"], "label": 0}
    return json.dumps(row | changes) + "\n"


# What to do, as the messages say it: each ends with one of these.
REMEDIES = (
    "Fix the file, or skip these rows with --set data.bad_rows=drop",
    "Check that",
    "Check the columns",
    "Close it",
    "Name another",
    "Rename",
    "rename the file",
    "Save it",
    "Save a spreadsheet as CSV",
    "or save it as UTF-8",
    "Say it: --text",
)
# name: (task, file name, content, what the message says)
BAD_ROWS: Mapping[str, tuple[str, str, str | bytes, tuple[str, ...]]] = {
    "empty text": ("sst2", "t.tsv", "sentence\tlabel\n" + GOOD + " \t1\n", ("line 4", "empty text")),
    "null text": ("sst2", "t.jsonl", '{"sentence": null, "label": 1}\n', ("line 1", "null text")),
    "text is a number": ("sst2", "t.jsonl", '{"sentence": 3, "label": 1}\n', ("line 1", "got int")),
    "text is a list": ("sst2", "t.jsonl", '{"sentence": ["a"], "label": 1}\n', ("line 1", "got list")),
    "empty label": ("sst2", "t.tsv", "sentence\tlabel\nfilm\t\n", ("line 2", "null label")),
    "unknown label": ("sst2", "t.tsv", "sentence\tlabel\nfilm\t7\n", ("line 2", "negative, positive", "'7'")),
    "misspelt label": (
        "rte", "t.csv", "sentence1,sentence2,label\na,b,entailmet\n",
        ("line 2", "got 'entailmet'. Did you mean 'entailment'?"),
    ),
    "hidden test label": ("sst2", "t.jsonl", '{"sentence": "a", "label": -1}\n', ("line 1", "'-1'")),
    "too few columns": ("sst2", "t.tsv", "sentence\tlabel\nfilm\n", ("line 2", "has 1 column,")),
    "too many columns": ("sst2", "t.tsv", "sentence\tlabel\na\tb\t1\n", ("line 2", "has 3 columns")),
    "header is missing": ("sst2", "t.tsv", GOOD, ("cannot tell", "data.columns.text")),
    "no rows": ("sst2", "t.tsv", "sentence\tlabel\n", ("t.tsv",)),
    "empty file": ("sst2", "t.tsv", "", ("t.tsv",)),
    "no Windows-1252 in TSV": ("sst2", "t.tsv", b"sentence\tlabel\na \x81\t1\n", ("line 2", "invalid byte")),
    "no Windows-1252 in JSONL": (
        "sst2", "t.jsonl", b'{"sentence": "a \x81", "label": 1}\n', ("line 1", "0x81", "not Windows-1252"),
    ),
    "half of UTF-16": ("sst2", "t.tsv", "sentence\tlabel\n".encode("utf-16")[:-1], ("t.tsv", "UTF-16")),
    "another alphabet": (
        "sst2", "t.tsv", "sentence\tlabel\nОчень хороший фильм\t1\n".encode("cp1251"), ("cp1251", "UTF-8"),
    ),
    "lone surrogate": (
        "sst2", "t.jsonl", '{"sentence": "a\\ud800", "label": 1}\n', ("line 1", "lone surrogate"),
    ),
    "NUL byte in TSV": ("sst2", "t.tsv", "sentence\tlabel\na\x00b\t1\n", ("line 2", "NUL byte")),
    "NUL byte in JSONL": (
        "sst2", "t.jsonl", '{"sentence": "a\\u0000", "label": 1}\n', ("line 1", "NUL byte"),
    ),
    "megabyte of text": (
        "sst2", "t.tsv", f"sentence\tlabel\n{'x' * 1_000_001}\t1\n", ("line 2", "1,000,001"),
    ),
    "broken JSON": ("sst2", "t.jsonl", '{"sentence": "a"\n', ("line 1", "broken JSON")),
    "JSON that is no object": ("sst2", "t.jsonl", "[1, 2]\n", ("line 1", "must be a JSON object")),
    "JSON key missing": (
        "sst2", "t.jsonl", '{"sentence": "a", "label": 1}\n{"sentence": "b"}\n', ("line 2", "has no 'label'"),
    ),
    "unclosed quote": ("sst2", "t.csv", 'sentence,label\n"good,1\nbad,0\n', ("line 2", "never closed")),
    "columns twice": ("sst2", "t.csv", "sentence,sentence,label\na,b,1\n", ("must differ",)),
    "label is not text": ("sst2", "t.tsv", b"sentence\tlabel\na\tcaf\x81\n", ("line 2", "unknown label")),
    "JSON too deep": ("sst2", "t.jsonl", "[" * 100_000 + "\n", ("line 1", "broken JSON")),
    "answers by other names": (
        "squad", "t.jsonl", '{"question": "q", "context": "c", "answers": {"txt": []}}\n', ("line 1", "text"),
    ),
    "answer is no list": (
        "squad",
        "t.jsonl",
        '{"question": "q", "context": "c", "answers": {"text": "c", "answer_start": 0}}\n',
        ("line 1", "answer_start: […]"),
    ),
    "answer before the context": ("squad", "t.json", squad(start=-4), ("question q7", "character -4")),
    "words are a number": ("conll2003", "t.jsonl", '{"words": 5, "tags": 3}\n', ("line 1", "must be lists")),
    "text after a quote": ("sst2", "t.csv", 'sentence,label\n"a"b,1\n', ("line 2", "broken quoting")),
    "score is a word": ("stsb", "t.tsv", "sentence1\tsentence2\tscore\na\tb\thigh\n", ("line 2", "'high'")),
    "score is NaN": ("stsb", "t.tsv", "sentence1\tsentence2\tscore\na\tb\tnan\n", ("line 2", "finite")),
    "score is infinite": ("stsb", "t.tsv", "sentence1\tsentence2\tscore\na\tb\tinf\n", ("line 2", "finite")),
    "score is empty": ("stsb", "t.tsv", "sentence1\tsentence2\tscore\na\tb\t\n", ("line 2", "null")),
    "second text is empty": (
        "mrpc", "t.csv", "sentence1,sentence2,label\na,,1\n", ("line 2", "text_pair is empty"),
    ),
    "answer elsewhere": ("squad", "t.json", squad(start=0), ("question q7", "'cat'", "character 0")),
    "answer is empty": ("squad", "t.json", squad(text=""), ("question q7", "answer is empty")),
    "question is empty": ("squad", "t.json", squad(question=" "), ("question q7", "question is empty")),
    "context is empty": ("squad", "t.json", squad(context=""), ("question q7", "context is empty")),
    "a list of records": ("classification", "t.json", '[{"text": "a"}]', ("t.json", ".jsonl")),
    "wrong delimiter": ("sst2", "t.csv", "sentence|label\na|1\n", ("only one column", "commas, semicolons")),
    "commas in a TSV": ("sst2", "t.tsv", "sentence,label\na,1\n", ("only one column", "a .tsv with tabs")),
    "not SQuAD": ("squad", "t.json", '{"rows": []}', ("t.json", "SQuAD's JSON")),
    "answers without starts": (
        "squad", "t.jsonl", '{"question": "q", "context": "c", "answers": []}\n', ("line 1", "answer_start"),
    ),
    "one choice": ("race", "t.jsonl", choice(choices=["cat"]), ("line 1", "at least two")),
    "choices are one text": ("race", "t.jsonl", choice(choices="cat"), ("line 1", "at least two")),
    "label beyond the choices": ("race", "t.jsonl", choice(label="C"), ("line 1", "'C'")),
    "other number of choices": (
        "race", "t.jsonl", choice() + choice(choices=["a", "b", "c"]), ("line 2", "has 3 choices"),
    ),
    "tag is missing": ("conll2003", "t.conll", "Anna I-PER\nruns\n", ("line 2 has 1 column,",)),
    "words without tags": ("conll2003", "t.conll", "Anna\nruns\n", ("a word and a tag are needed",)),
    "unknown tag": ("conll2003", "t.conll", "Anna I-ANIMAL\n", ("line 1", "'B-ANIMAL'")),
    "BIOES tags": ("conll2003", "t.conll", "Anna S-PER\n", ("line 1", "O, B-… or I-…", "'S-PER'")),
    "more words than tags": (
        "conll2003", "t.jsonl", '{"words": ["a", "b"], "tags": ["O"]}\n', ("line 1", "2 words and 1 tags"),
    ),
    "no words": ("conll2003", "t.jsonl", '{"words": [], "tags": []}\n', ("line 1", "no words")),
    "one label only": ("classification", "t.csv", "text,label\na,1\nb,1\n", ("two or more", "'1'")),
    "label column is text": (
        "classification",
        "t.csv",
        "text,label\n" + "".join(f"a,{number}\n" for number in range(1_001)),
        ("'label'", "hardly a label"),
    ),
    "a label for each row": (
        "classification",
        "t.csv",
        "text,label\n" + "".join(f"a,{number}\n" for number in range(30)),
        ("column 'label' has 30 different values in 30 rows", "use --task regression"),
    ),
    "a text for each label": (
        "classification",
        "t.csv",
        "text,label\n" + "".join(f"a,word {number}\n" for number in range(30)),
        ("column 'label' has 30 different values in 30 rows, so it is hardly a label. Name another",),
    ),
    "lists of labels": (
        "classification",
        "t.csv",
        "text,label\n" + "".join(f"a,x{number};y\n" for number in range(30)),
        ("hardly a label", "use --task multi-label"),
    ),
    "unknown ending": ("sst2", "t.xlsx", b"PK", ("t.xlsx", ".csv, .tsv, .jsonl")),
    "not Parquet": ("sst2", "t.parquet", b"not parquet", ("t.parquet", "cannot be read as Parquet")),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_reported_with_its_place(name: str, tmp_path: Path) -> None:
    task, file, content, expected = BAD_ROWS[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    with pytest.raises(DataError) as error:
        load_data(get_task(task), DataSettings(train=str(path)), ["train"])
    for part in (file, *expected):
        assert part in str(error.value)
    assert any(remedy in str(error.value) for remedy in REMEDIES)


def test_a_null_in_parquet_is_reported_with_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sentence": ["a", None], "label": [1, 0]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"(?s)t\.parquet.*row 1: text is null.*data\.bad_rows=drop"):
        load_data(get_task("sst2"), DataSettings(train=str(tmp_path / "t.parquet")), ["train"])


# name: (what --set says over finetune-mrpc, what the message says)
BAD_RECIPES: Mapping[str, tuple[list[str], tuple[str, ...]]] = {
    "unknown key": (["modle=x"], ("modle is not a key", "Did you mean 'model'?")),
    "unknown data key": (["data.columsn={}"], ("data.columsn is not a key", "Did you mean 'columns'?")),
    "unknown task": (["task=mrcp"], ("task must be one of", "Did you mean 'mrpc'?")),
    "unknown training argument": (
        ["training.learning_rat=1"], ("training.learning_rat", "Did you mean learning_rate"),
    ),
    "learning rate is a word": (["training.learning_rate=fast"], ("training.learning_rate", "'fast'")),
    "epochs is a list": (["training.num_train_epochs=[1]"], ("training.num_train_epochs", "[1]")),
    "bf16 is a word": (["training.bf16=perhaps"], ("training.bf16", "'perhaps'")),
    "output_dir in the recipe": (["training.output_dir=x"], ("training.output_dir", "--output-dir")),
    "do_train": (["training.do_train=true"], ("training.do_train", "the command decides")),
    "resume_from_checkpoint": (["training.resume_from_checkpoint=x"], ("run the same command again",)),
    "length is zero": (["data.max_length=0"], ("data.max_length", "greater than or equal to 8", "got 0")),
    "length is a word": (["data.max_length=long"], ("data.max_length", "'long'")),
    "dropout above one": (["dropout=1.5"], ("dropout", "less than 1", "1.5")),
    "bad_rows misspelt": (["data.bad_rows=ignore"], ("data.bad_rows", "'refuse' or 'drop'", "'ignore'")),
    "one label": (["data.labels=[a]"], ("data.labels", "at least 2")),
    "training is a list": (["training=[1]"], ("training", "dictionary")),
    "setting without a value": (["training.seed"], ("key=value", "--set seed=7")),
    "setting that is no YAML": (["data.labels=[a"], ("--set data.labels", "not YAML")),
    "setting below a value": (["task.name=x"], ("--set task.name", "'mrpc'")),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_RECIPES)
def test_a_bad_setting_is_reported_with_its_key(name: str) -> None:
    settings, expected = BAD_RECIPES[name]
    with pytest.raises(RecipeError) as error:
        load_recipe("finetune-mrpc", settings)
    for part in expected:
        assert part in str(error.value)


def test_recipe_files_that_cannot_be_read(tmp_path: Path) -> None:
    for content, expected in (
        (b"a: [", "not YAML"),
        (b"- 1", "must be a mapping"),
        (b"\xff", "UTF-8"),
        (b"{}", "task"),
    ):
        (tmp_path / "mine.yaml").write_bytes(content)
        with pytest.raises(RecipeError, match=expected) as error:
            load_recipe(tmp_path / "mine.yaml")
        assert "mine.yaml" in str(error.value)
    with pytest.raises(RecipeError, match=r"other\.yaml cannot be read"):
        load_recipe(tmp_path / "other.yaml")
    with pytest.raises(RecipeError, match="Did you mean finetune-mrpc"):
        load_recipe("finetune-mrcp")


# name: (task, data settings, what the message says)
BAD_SOURCES: Mapping[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "nothing given": ("mrpc", {}, ("data.source or data.train",)),
    "folder and files": ("mrpc", {"source": "glue", "train": "t.csv"}, ("data.source and data.train",)),
    "no such file": ("mrpc", {"train": "nowhere.csv"}, ("nowhere.csv does not exist",)),
    "no such folder": ("mrpc", {"source": "./nowhere"}, ("./nowhere does not exist",)),
    "source is a file": ("mrpc", {"source": "{tmp}/a.csv"}, ("is a file", "data.train")),
    "folder without the task": ("mrpc", {"source": "{tmp}"}, ("no train split of mrpc", "MRPC/train.tsv")),
    "folder for own files": ("classification", {"source": "{tmp}"}, ("data.train",)),
    "hub without a network": ("mrpc", {"source": "nobody/nothing"}, ("nobody/nothing", "local folder")),
    "config without a hub": ("mrpc", {"train": "{tmp}/a.csv", "config": "x"}, ("data.config", "hub")),
    "splits without a hub": ("mrpc", {"train": "{tmp}/a.csv", "splits": {"dev": "x"}}, ("data.splits",)),
    "stride without windows": ("mrpc", {"train": "{tmp}/a.csv", "stride": 8}, ("data.stride", "no windows")),
    "labels of a regression": ("stsb", {"train": "{tmp}/a.csv", "labels": ["a", "b"]}, ("data.labels",)),
    "labels twice": ("classification", {"train": "{tmp}/a.csv", "labels": ["a", "a"]}, ("differ",)),
    "labels of another task": ("mrpc", {"train": "{tmp}/a.csv", "labels": ["a", "b"]}, ("not_equivalent",)),
    "column of another kind": (
        "mrpc",
        {"train": "{tmp}/a.csv", "columns": {"words": "x"}},
        ("data.columns must name text, label, text_pair", "'words'"),
    ),
    "names and numbers": (
        "mrpc", {"train": "{tmp}/a.csv", "columns": {"text": 0, "label": "x"}}, ("all names or all numbers",),
    ),
    "column number too high": (
        "mrpc", {"train": "{tmp}/a.csv", "columns": {"text": 0, "label": 9}}, ("no column 9 for label",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_a_bad_source_is_reported_with_its_key(name: str, tmp_path: Path) -> None:
    task, values, expected = BAD_SOURCES[name]
    (tmp_path / "a.csv").write_text("text,label\na,1\n", "utf-8")
    filled = {
        key: value.replace("{tmp}", str(tmp_path)) if isinstance(value, str) else value
        for key, value in values.items()
    }
    with pytest.raises(UnderstudyError) as error:
        load_data(get_task(task), DataSettings(**filled), ["train"])
    for part in expected:
        assert part in str(error.value)


def test_every_mistake_of_a_recipe_is_said_at_once() -> None:
    with pytest.raises(RecipeError) as error:
        Recipe.from_mapping({"task": "mrpc", "modle": "x", "dropout": 2}, origin="mine.yaml")
    assert str(error.value).count("mine.yaml: ") == 2
