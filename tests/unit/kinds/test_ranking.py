"""Rankings: pairs and triples, their losses, and what is scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from understudy.capture.representations import Representations
from understudy.data.encode import Collator, encode
from understudy.data.load import load_data, load_unlabelled
from understudy.data.raw_rows import Problem, RawRow
from understudy.data.rows import check_row
from understudy.data.settings import DataSettings
from understudy.distillation.agreement import _choose
from understudy.errors import DataError, ModelError
from understudy.kinds import get_kind
from understudy.kinds.ranking.model import scorer_class
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_model

KIND = get_kind("ranking")
TASK = get_task("ranking")
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def write(file: Path, rows: Sequence[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(file)


def test_a_pair_needs_its_relevance_and_a_triple_does_not() -> None:
    def checked(values: dict[str, Any]) -> Any:
        return check_row(KIND, RawRow("line 2", values), {name: name for name in values}, None)

    assert checked({"text": "q", "text_pair": "p", "label": "2"}) == {
        "text": "q",
        "text_pair": "p",
        "label": 2.0,
    }
    triple = {"text": "q", "text_pair": "p", "negative": "n"}
    assert checked(triple) == {**triple, "label": 1.0}
    for values, detail in (
        ({"text": "q", "text_pair": "p"}, "--unlabelled"),
        ({"text": "q", "text_pair": "p", "label": -1}, "0 or more"),
        ({"text": "q", "text_pair": "p", "negative": ""}, "negative is empty"),
    ):
        problem = checked(values)
        assert isinstance(problem, Problem)
        assert detail in problem.detail


def test_usual_columns(tmp_path: Path) -> None:
    triples = [{"query": f"q{n}", "positive": "p", "negative": "n"} for n in range(3)]
    dev = [{"question": "d", "sentence": text, "label": label} for text, label in (("a", 1), ("b", 0))]
    settings = DataSettings(
        train=write(tmp_path / "train.jsonl", triples), dev=write(tmp_path / "dev.jsonl", dev)
    )
    data = load_data(TASK, settings, ["train", "dev"])
    assert data.splits["train"][0] == {
        "row": 0,
        "text": "q0",
        "text_pair": "p",
        "negative": "n",
        "label": 1.0,
    }
    assert data.splits["dev"][1] == {"row": 1, "text": "d", "text_pair": "b", "label": 0.0}


def test_unlabelled_triples_keep_their_negatives_beside_a_development_set(tmp_path: Path) -> None:
    dev = [{"query": "d", "passage": text, "label": label} for text, label in (("a", 1), ("b", 0))]
    triples = [{"query": query, "passage": "p", "negative": "n"} for query in ("q", "d")]
    settings = DataSettings(
        unlabelled=[write(tmp_path / "triples.jsonl", triples)], dev=write(tmp_path / "dev.jsonl", dev)
    )
    data = load_data(TASK, settings, ["train", "dev"])
    # The triple of a development query is left out, though its passages are others.
    assert data.splits["unlabelled"].to_list() == [
        {"row": 0, "text": "q", "text_pair": "p", "negative": "n", "label": 1.0}
    ]


def test_beside_labelled_pairs_triples_are_pairs(tmp_path: Path) -> None:
    pairs = [{"query": "q", "passage": text, "label": label} for text, label in (("a", 1), ("b", 0))]
    triples = [{"query": "q", "passage": "p", "negative": "n"}]
    settings = DataSettings(
        train=write(tmp_path / "train.jsonl", pairs),
        unlabelled=[write(tmp_path / "triples.jsonl", triples)],
    )
    data = load_data(TASK, settings, ["train"])
    assert data.splits["unlabelled"].column_names == data.splits["train"].column_names


def test_a_text_column_may_be_named_without_the_passages(tmp_path: Path) -> None:
    rows = [{"ask": "d", "passage": text, "label": label} for text, label in (("a", 1), ("b", 0))]
    settings = DataSettings(dev=write(tmp_path / "dev.jsonl", rows), columns={"text": "ask"})
    assert load_data(TASK, settings, ["dev"]).splits["dev"]["text_pair"][:] == ["a", "b"]


def test_a_misspelt_column_of_negatives_is_refused(tmp_path: Path) -> None:
    triples = [{"query": "q", "passage": "p", "negative": "n"}]
    settings = DataSettings(
        unlabelled=[write(tmp_path / "triples.jsonl", triples)], columns={"negative": "negativ"}
    )
    with pytest.raises(DataError, match="no file has the column 'negativ'"):
        load_unlabelled(TASK, settings, None)


def test_passages_of_single_queries_cannot_be_scored(tmp_path: Path) -> None:
    rows = [{"query": f"q{n}", "passage": "p", "label": n % 2} for n in range(4)]
    with pytest.raises(DataError, match="several passages for a query"):
        load_data(TASK, DataSettings(dev=write(tmp_path / "dev.jsonl", rows)), ["dev"])


def test_a_share_holds_out_whole_queries(tmp_path: Path) -> None:
    rows = [{"query": f"q{n}", "passage": f"p{m}", "label": m} for n in range(60) for m in range(2)]
    settings = DataSettings(train=write(tmp_path / "all.jsonl", rows), dev_share=0.3)
    splits = load_data(TASK, settings, ["train", "dev"]).splits
    queries = {name: set(splits[name]["text"][:]) for name in ("train", "dev")}
    assert not queries["train"] & queries["dev"]
    assert len(splits["dev"]) == 2 * len(queries["dev"]) > 10


def test_held_out_rows_are_whole_queries() -> None:
    rows = Dataset.from_dict({"text": [f"q{n // 5}" for n in range(100)], "text_pair": ["p"] * 100})
    chosen = _choose(rows, (), KIND, 10)
    assert len(chosen) == 10
    assert len(set(chosen["text"][:])) == 2


def test_each_passage_of_a_triple_is_read_with_the_query(tokenizer: PreTrainedTokenizerFast) -> None:
    triples = Dataset.from_dict(
        {"row": [0], "text": ["good film"], "text_pair": ["a"], "negative": ["the red cat"], "label": [1.0]}
    )
    pairs = Dataset.from_dict(
        {"row": [0, 1], "text": ["good film"] * 2, "text_pair": ["a", "the red cat"], "label": [1.0, 0.0]}
    )
    encoded = encode(triples, KIND, tokenizer, max_length=16)
    assert encoded[0]["input_ids"] == encode(pairs, KIND, tokenizer, max_length=16)["input_ids"][:]
    batch = Collator(tokenizer)([encoded[0]])
    assert batch["input_ids"].shape == (1, 2, 8)


@pytest.mark.parametrize(
    "config", [BertConfig(vocab_size=300, **SIZES), RobertaConfig(vocab_size=300, **SIZES)]
)
def test_a_triple_gives_the_scores_of_its_pairs(config: Any, tmp_path: Path) -> None:
    KIND.configure(config, None)
    torch.manual_seed(0)
    model = scorer_class(config)(config).eval()
    ids = torch.randint(5, 300, (3, 2, 6))
    mask = torch.ones_like(ids)
    together = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    apart = model(input_ids=ids.flatten(0, 1), attention_mask=mask.flatten(0, 1))
    assert together["logits"].shape == (3, 2)
    assert torch.equal(together["logits"].flatten(), apart["logits"].flatten())
    assert together["hidden_states"][1].shape == (6, 6, 8)
    model.save_pretrained(tmp_path)
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert type(plain).__name__ == type(model).__name__
    assert torch.allclose(plain(ids[0])["logits"], apart["logits"][:2], atol=1e-6)


def representations(logits: list[list[float]]) -> Representations:
    return Representations(None, (), (), {"logits": torch.tensor(logits)})


def test_losses_of_pairs_and_triples() -> None:
    options: dict[str, Any] = {"temperature": 1.0, "padded": False}
    pairs = KIND.prediction_losses(
        representations([[1.0], [2.0]]), representations([[3.0], [2.0]]), {}, **options
    )
    assert {name: loss.tolist() for name, loss in pairs.items()} == {"predictions": [4.0, 0.0]}
    triples = KIND.prediction_losses(
        representations([[1.0, 0.0]]), representations([[3.0, 0.0]]), {}, **options
    )
    assert {name: loss.tolist() for name, loss in triples.items()} == {"predictions": [2.0], "margins": [4.0]}
    soft = KIND.soft_label_loss(
        representations([[1.0, 0.0]]), representations([[3.0, 0.0]]), {}, temperature=1.0, squared=False
    )
    assert soft.tolist() == [6.0]


def test_relevance_is_learnt_by_cross_entropy() -> None:
    log2 = float(np.log(2))
    pairs = KIND.label_loss(
        representations([[0.0], [0.0], [100.0]]), {"labels": torch.tensor([1.0, 0.0, 3.0])}
    )
    assert pairs.tolist() == pytest.approx([log2, log2, 0.0])
    triple = KIND.label_loss(representations([[100.0, 0.0]]), {"labels": torch.tensor([1.0])})
    assert triple.tolist() == pytest.approx([log2 / 2])


def test_held_out_triples_are_labelled_by_the_teacher() -> None:
    rows = Dataset.from_dict(
        {"row": [7, 9], "text": ["q", "r"], "text_pair": ["a", "b"], "negative": ["c", "d"]}
    )
    encoded = Dataset.from_dict({"row": [9, 7]})
    made = KIND.label_rows(TASK, rows, encoded, (np.array([[0.0, -100.0], [100.0, 0.0]]),))
    assert made == [
        {"text": "q", "text_pair": "a", "label": 1.0},
        {"text": "q", "text_pair": "c", "label": 0.5},
        {"text": "r", "text_pair": "b", "label": 0.5},
        {"text": "r", "text_pair": "d", "label": pytest.approx(0.0)},
    ]


def test_a_classifier_does_not_rank(tmp_path: Path) -> None:
    config = BertConfig(vocab_size=300, num_labels=3, **SIZES)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="a ranking needs one output"):
        load_model(str(tmp_path), TASK, None, fine_tuned=True)
