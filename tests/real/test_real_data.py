"""The real data sets and the real tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from understudy.data.encode import encode
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.data.sources import dev_splits
from understudy.errors import DataError
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_tokenizer

SIZES = {
    "sst2": (67_349, 872),
    "cola": (8_551, 1_043),
    "mrpc": (3_668, 408),
    "rte": (2_490, 277),
    "stsb": (5_749, 1_500),
    "wnli": (635, 71),
}


@pytest.mark.parametrize("name", SIZES)
def test_glue_loads_whole(name: str, assets: Path) -> None:
    task, settings = get_task(name), DataSettings(source=str(assets / "glue"))
    data = load_data(task, settings, ("train", *dev_splits(task, settings)))
    assert tuple(len(split) for split in data.splits.values()) == SIZES[name]
    assert not any(report.num_bad for report in data.reports.values())


def test_qnli_has_its_dev_set(assets: Path) -> None:
    data = load_data(get_task("qnli"), DataSettings(source=str(assets / "glue")), ["dev"])
    assert len(data.splits["dev"]) == 5_463


def test_rows_with_more_columns_than_the_first_are_found_in_the_original_sts_release(assets: Path) -> None:
    """284 of its rows have two columns more (their sources): not what a user wants dropped in silence."""
    settings = DataSettings(
        test=str(assets / "glue" / "STS-B" / "test_labelled.tsv"),
        columns={"text": 5, "text_pair": 6, "label": 4},
    )
    with pytest.raises(DataError, match=r"284 of 1,379 rows(.*\n){2} +line 626: has 9 columns"):
        load_data(get_task("stsb"), settings, ["test"])


def test_conll_sentences(assets: Path) -> None:
    data = load_data(get_task("conll2003"), DataSettings(source=str(assets / "ner")), ["train", "dev"])
    assert (len(data.splits["train"]), len(data.splits["dev"])) == (14_041, 3_250)
    names = data.splits["dev"].features["tags"].feature.names
    entities = sum(names[tag].startswith("B-") for tags in data.splits["dev"]["tags"] for tag in tags)
    assert entities == 5_942  # the count in the task's own description


def test_gold_tags_survive_encoding_and_score_one(assets: Path) -> None:
    """Words to pieces and back: a model that is always right gets F1 1, cut sentences apart."""
    task = get_task("conll2003")
    rows = load_data(task, DataSettings(source=str(assets / "ner")), ["dev"]).splits["dev"]
    encoded = encode(rows, task.kind, load_tokenizer(str(assets / "bert-12l-384h-mlm")), max_length=512)
    longest = max(encoded["length"])
    logits = np.zeros((len(encoded), longest, 9), dtype=np.float32)
    for index, labels in enumerate(encoded["labels"]):
        for position, label in enumerate(labels):
            if label >= 0:
                logits[index, position, label] = 1
    right, predicted, gold = task.kind.judge(task, rows, encoded, (logits,)).outcomes.sum(axis=0)
    assert right == predicted == gold == 5_942


def test_every_real_answer_is_found_again(assets: Path) -> None:
    """Answers to tokens and back, through windows: exact match of a model that is always right."""
    task = get_task("squad")
    settings = DataSettings(train=str(assets / "qa" / "mlqa-dev-en.json"))
    rows = load_data(task, settings, ["train"]).splits["train"]
    assert len(rows) == 1_148
    encoded = encode(rows, task.kind, load_tokenizer(str(assets / "bert-12l-384h-mlm")), max_length=384)
    assert len(encoded) > len(rows)
    starts = np.zeros((len(encoded), 384), dtype=np.float32)
    ends = np.zeros_like(starts)
    for logits, column in ((starts, "start_positions"), (ends, "end_positions")):
        for index, position in enumerate(encoded[column]):
            logits[index, position] = 9 if position else 0
    outcomes = task.kind.judge(task, rows, encoded, (starts, ends)).outcomes
    # A handful of answers begin or end inside a word, or are longer than 30 tokens.
    assert outcomes[:, 0].mean() > 0.97
