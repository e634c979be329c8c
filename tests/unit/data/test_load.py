from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from understudy.data.load import cache_folder, load_data
from understudy.data.settings import DataSettings
from understudy.data.sources import dev_splits
from understudy.errors import DataError, RecipeError
from understudy.kinds.tasks import get_task


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


def test_glue_folder(tmp_path: Path) -> None:
    write(tmp_path / "CoLA" / "train.tsv", 'gj04\t1\t\t"The cat sat.\ngj04\t0\t*\tCat the sat.\n')
    data = load_data(get_task("cola"), DataSettings(source=str(tmp_path)), ["train"])
    assert data.splits["train"].to_list() == [
        {"row": 0, "text": '"The cat sat.', "label": 1},
        {"row": 1, "text": "Cat the sat.", "label": 0},
    ]
    assert data.labels == ("unacceptable", "acceptable")


def test_a_task_folder_itself_is_a_source(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "sentence\tlabel\na\t1\n")
    assert (
        len(load_data(get_task("sst2"), DataSettings(source=str(tmp_path)), ["train"]).splits["train"]) == 1
    )


def test_a_share_of_the_training_rows_is_held_out(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(400)] + ["text 7"] * 5
    file = write(tmp_path / "a.csv", "text,label\n" + "".join(f"{text},x\n{text},y\n" for text in texts))
    data = load_data(get_task("classification"), DataSettings(train=file, dev_share=0.25), ["train", "dev"])
    train, dev = (set(data.splits[split]["text"]) for split in ("train", "dev"))
    assert not train & dev  # equal texts are on one side
    assert train | dev == set(texts)
    assert len(data.splits["train"]) + len(data.splits["dev"]) == 2 * len(texts)
    assert 0.18 < len(dev) / 400 < 0.32
    assert data.hashes["train"] != data.hashes["dev"]
    # Rows keep their numbers in the file, which a file of predictions names.
    lines = Path(file).read_text("utf-8").splitlines()[1:]
    for part in data.splits.values():
        assert all(lines[row["row"]].split(",")[0] == row["text"] for row in part)


def test_rows_that_are_added_do_not_move_others_to_the_other_side(tmp_path: Path) -> None:
    few = write(tmp_path / "few.csv", "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(50)))
    more = write(
        tmp_path / "more.csv", "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(99, -1, -1))
    )
    dev = [
        set(
            load_data(get_task("classification"), DataSettings(train=file, dev_share=0.3), ["dev"]).splits[
                "dev"
            ]["text"]
        )
        for file in (few, more)
    ]
    assert dev[0] == {text for text in dev[1] if int(text[1:]) < 50}


def test_a_bad_row_is_reported_once_where_rows_are_held_out(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "text,label\na,x\nb\nc,y\nd,x\ne,y\n")
    settings = DataSettings(train=file, dev_share=0.5, bad_rows="drop")
    data = load_data(get_task("classification"), settings, ["train", "dev"])
    assert [data.reports[split].num_read - data.reports[split].num_kept for split in ("train", "dev")] == [
        1,
        0,
    ]


def test_bad_rows_of_all_files_are_reported_together(tmp_path: Path) -> None:
    files = {}
    for name, bad in (("train", ",positive"), ("dev", "a text,")):
        files[name] = str(tmp_path / f"{name}.csv")
        Path(files[name]).write_text(f"text,label\ngood,positive\nbad,negative\n{bad}\n")
    with pytest.raises(DataError) as error:
        load_data(get_task("sst2"), DataSettings(**files), ["train", "dev"])
    message = str(error.value)
    assert "train.csv: 1 of 3 rows are bad" in message
    assert "dev.csv: 1 of 3 rows are bad" in message
    assert message.endswith("Fix the files, or skip these rows with --set data.bad_rows=drop.")


def test_rows_that_are_all_bad_are_not_to_be_skipped(tmp_path: Path) -> None:
    """As where the labels of the file are not those of the task."""
    file = write(tmp_path / "a.csv", "text,label\na,x\nb,y\n")
    with pytest.raises(DataError, match=r"(?s)2 of 2 rows are bad.*whether --task is the right one") as error:
        load_data(get_task("sst2"), DataSettings(train=file), ["train"])
    assert "drop" not in str(error.value)


@pytest.mark.parametrize(("share", "what"), [(0.01, "score on"), (0.99, "learn from")])
def test_a_share_of_too_few_rows_is_refused(share: float, what: str, tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "text,label\na,x\nb,y\n")
    with pytest.raises(DataError, match=rf"--split {share} leaves no row of .*a\.csv to {what}"):
        load_data(get_task("classification"), DataSettings(train=file, dev_share=share), ["train", "dev"])


def test_numbers_of_rows_are_no_texts(tmp_path: Path) -> None:
    rows = "".join(f"{number},text {number},{number % 2}\n" for number in range(100))
    file = write(tmp_path / "a.csv", f"id,message,mood\n{rows}")
    columns: dict[str, str | int] = {"text": "id", "label": "mood"}
    settings = DataSettings(train=file, columns=columns)
    with pytest.raises(DataError, match=r"'id' has numbers, all different, where texts should be.*--text"):
        load_data(get_task("classification"), settings, ["train"])
    settings = DataSettings(train=file, columns=columns | {"text": "message"})
    assert len(load_data(get_task("classification"), settings, ["train"]).splits["train"]) == 100


def test_dropping_all_rows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("text,label\n,positive\n,negative\n")
    with pytest.raises(DataError, match=r"(?s)2 of 2 rows are bad.*No usable rows are left"):
        load_data(get_task("sst2"), DataSettings(train=str(file), bad_rows="drop"), ["train"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": "a.csv", "dev": "b.csv"}, r"--dev \(data.dev\) has others"),
        ({"source": "glue"}, "there is no --train"),
    ],
)
def test_a_held_out_share_needs_training_rows_and_no_development_set(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        load_data(get_task("classification"), DataSettings(dev_share=0.1, **settings), ["dev"])


def test_some_rows_are_the_same_ones_each_time(tmp_path: Path) -> None:
    lines = "".join(f"text {number}\t{number % 2}\n" for number in range(50))
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.tsv", "sentence\tlabel\n" + lines)
    task, everything = get_task("sst2"), DataSettings(source=str(tmp_path))
    some = everything.model_copy(update={"max_rows": 7})
    first, again = (load_data(task, some, ["train", "dev"]) for _ in range(2))
    assert first.splits["train"].to_list() == again.splits["train"].to_list()
    numbers = first.splits["train"]["row"][:]
    assert len(numbers) == 7
    assert numbers == sorted(numbers)
    assert first.reports["train"].num_used == 7
    assert len(first.splits["dev"]) == 50
    assert first.hashes["train"] != load_data(task, everything, ["train"]).hashes["train"]
    assert first.hashes["dev"] == load_data(task, everything, ["dev"]).hashes["dev"]


def test_mnli_has_two_dev_sets(tmp_path: Path) -> None:
    for name, label in (("dev_matched", "neutral"), ("dev_mismatched", "entailment")):
        write(tmp_path / "MNLI" / f"{name}.tsv", f"sentence1\tsentence2\tgold_label\na\tb\t{label}\n")
    task, settings = get_task("mnli"), DataSettings(source=str(tmp_path))
    data = load_data(task, settings, dev_splits(task, settings))
    assert {name: split["label"][0] for name, split in data.splits.items()} == {
        "dev_matched": 1,
        "dev_mismatched": 0,
    }


def test_own_labels_are_found_and_sorted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "review,stars\nx,10\ny,2\nz,2\n")
    data = load_data(
        get_task("classification"),
        DataSettings(train=path, columns={"text": "review", "label": "stars"}),
        ["train"],
    )
    assert data.labels == ("2", "10")


def test_a_models_order_goes_before_the_alphabet(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\nx,pos\ny,neg\n")
    settings = DataSettings(dev=path)
    data = load_data(get_task("classification"), settings, ["dev"], labels=["pos", "neg"])
    assert data.splits["dev"]["label"][:] == [0, 1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("pos neg", ("NEG", "POS")),  # the same names
        ("pos pos", ("NEG", "POS")),  # some of them
        ("0 1", ("NEG", "POS")),  # as many numbers
        ("1 2", ("1", "2")),  # other numbers: not its ids
        ("order refund", ("order", "refund")),  # other names: the model is refused later, with both shown
    ],
)
def test_a_models_labels_are_taken_where_the_rows_mean_them(
    values: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", "text,label\n" + "".join(f"x,{value}\n" for value in values.split()))
    data = load_data(get_task("classification"), DataSettings(dev=path), ["dev"], labels=["NEG", "POS"])
    assert data.labels == expected


def test_numbers_keep_their_meaning_in_another_order_of_labels(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "sentence\tlabel\ngood\t1\nbad\t0\n")
    settings = DataSettings(source=str(tmp_path), labels=["positive", "negative"])
    rows = load_data(get_task("sst2"), settings, ["train"]).splits["train"]
    assert [rows.features["label"].int2str(label) for label in rows["label"]] == ["positive", "negative"]


def test_an_unrelated_parquet_file_does_not_hide_the_layout(tmp_path: Path) -> None:
    write(tmp_path / "SST-2" / "dev.tsv", "sentence\tlabel\na\t1\n")
    write(tmp_path / "x" / "a.parquet", "")
    assert len(load_data(get_task("sst2"), DataSettings(source=str(tmp_path)), ["dev"]).splits["dev"]) == 1


def test_empty_labels_are_no_label(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b", "c"], "label": [1.0, None, 0.0]}), tmp_path / "t.parquet")
    settings = DataSettings(train=str(tmp_path / "t.parquet"), bad_rows="drop")
    data = load_data(get_task("classification"), settings, ["train"])
    assert data.labels == ("0", "1")
    assert data.splits["train"]["label"][:] == [1, 0]


def test_labels_of_the_recipe_order_those_of_the_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel\na\tb\tentailment\n")
    settings = DataSettings(train=path, labels=["not_entailment", "entailment"])
    assert load_data(get_task("rte"), settings, ["train"]).splits["train"]["label"][:] == [1]


def test_tags_become_iob2_with_labels_by_type(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "Anna I-PER\nruns O\n\nRome I-LOC\n")
    data = load_data(get_task("token-classification"), DataSettings(train=path), ["train"])
    assert data.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    names = data.splits["train"].features["tags"].feature.names
    assert [names[tag] for tag in data.splits["train"]["tags"][0]] == ["B-PER", "O"]


def test_dropped_rows_are_counted_and_the_others_keep_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence\tlabel\na\t1\n\t1\nb\t9\nc\t0\n")
    data = load_data(get_task("sst2"), DataSettings(train=path, bad_rows="drop"), ["train"])
    assert data.splits["train"]["row"][:] == [0, 3]
    report = data.reports["train"]
    assert (report.num_read, report.num_kept) == (4, 2)
    assert report.problems == {"empty text": 1, "unknown label": 1}


def test_a_report_survives_in_the_cache(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence\tlabel\na\t1\n\t1\n")
    settings = DataSettings(train=path, bad_rows="drop")
    first = load_data(get_task("sst2"), settings, ["train"])
    assert len(list(cache_folder().iterdir())) == 1
    second = load_data(get_task("sst2"), settings, ["train"])
    assert second.reports == first.reports


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    for text in ("a", "b"):
        write(path, f"sentence\tlabel\n{text}\t1\n")
        data = load_data(get_task("sst2"), DataSettings(train=str(path)), ["train"])
        assert data.splits["train"]["text"][:] == [text]


def test_squad_by_json_and_by_lines_is_the_same(tmp_path: Path) -> None:
    row = {
        "id": "1",
        "question": "Who?",
        "context": "A cat.",
        "answers": {"text": ["cat"], "answer_start": [2]},
    }
    question = {"id": "1", "question": "Who?", "answers": [{"text": "cat", "answer_start": 2}]}
    document = {"data": [{"title": "", "paragraphs": [{"context": "A cat.", "qas": [question]}]}]}
    by_json = write(tmp_path / "a.json", json.dumps(document))
    by_lines = write(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    rows = [
        load_data(get_task("squad"), DataSettings(train=path), ["train"]).splits["train"].to_list()
        for path in (by_json, by_lines)
    ]
    assert rows[0] == rows[1] == [{"row": 0, **row}]


def test_a_copy_of_a_hub_dataset(tmp_path: Path) -> None:
    """`load_dataset` reads a folder of Parquet files as it reads a hub name."""
    features = Features(
        {
            "sentence1": Value("string"),
            "sentence2": Value("string"),
            "label": ClassLabel(names=["not_entailment", "entailment"]),
        }
    )
    values = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0, 1]}
    Dataset.from_dict(values, features=features).to_parquet(tmp_path / "validation.parquet")
    data = load_data(get_task("rte"), DataSettings(source=str(tmp_path)), ["dev"])
    by_split = DataSettings(source=str(tmp_path), splits={"test": "validation"})
    assert len(load_data(get_task("rte"), by_split, ["test"]).splits["test"]) == 2
    # RTE's ids on the hub differ from the table's: names decide.
    assert data.splits["dev"].to_list() == [
        {"row": 0, "text": "a", "text_pair": "c", "label": 1},
        {"row": 1, "text": "b", "text_pair": "d", "label": 0},
    ]


def test_labels_that_look_like_lists_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "t.csv").write_text("text,label\na,sport\nb,sport;news\nc,news\n")
    with caplog.at_level("WARNING"):
        load_data(get_task("classification"), DataSettings(train=str(tmp_path / "t.csv")), ["train"])
    assert "Labels such as 'sport;news' look like several labels" in caplog.text
    assert "--task multi-label" in caplog.text


def test_labels_that_look_like_numbers_to_predict_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"text {place},{value}\n" for place, value in enumerate(["1", "1.5", "2", "4"] * 9))
    (tmp_path / "stars.csv").write_text("text,label\n" + rows)
    settings = DataSettings(train=str(tmp_path / "stars.csv"))
    data = load_data(get_task("classification"), settings, ["train"])
    assert data.labels == ("1", "1.5", "2", "4")
    assert "To predict a number, use --task regression" in caplog.text
