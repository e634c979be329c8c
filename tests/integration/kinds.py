"""A few rows of every kind that a tiny model can learn, and how plain transformers predicts them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)


@dataclass(frozen=True)
class Example:
    """A task with its rows in a file, and a function that predicts one checked row without our code."""

    task: str
    write: Callable[[Path], Path]
    predict: Callable[[Path], Callable[[dict[str, Any]], Any]]
    steps: int = 60


ANIMALS, COLOURS = ("cat", "dog"), ("red", "blue", "green", "big", "small")


def _csv(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_classification(folder: Path) -> Path:
    rows = [[f"{word} film", label] for word, label in
            [("good", "pos"), ("bad", "neg"), ("great", "pos"), ("awful", "neg"), ("very good", "pos"),
             ("very bad", "neg"), ("it was great", "pos"), ("it was awful", "neg")]]  # fmt: skip
    return _csv(folder / "rows.csv", ["text", "label"], rows)


def write_pairs(folder: Path) -> Path:
    pairs = [(a, b) for a in COLOURS for b in COLOURS]
    rows = [[f"the {a} cat", f"the {b} cat", int(a == b)] for a, b in pairs if a == b or (a < b)]
    return _csv(folder / "rows.csv", ["sentence1", "sentence2", "label"], rows)


def write_label_sets(folder: Path) -> Path:
    rows = [["the red cat", "animal;colour"], ["the blue dog", "animal; colour"],
            ["a red film", "colour;film"], ["the dog was in the movie", '["animal", "film"]'],
            ["the cat sleeps", "animal"], ["it is green", "colour"], ["a slow movie", "film"],
            ["it was great", ""]]  # fmt: skip
    return _csv(folder / "rows.csv", ["text", "labels"], rows)


def write_regression(folder: Path) -> Path:
    scores = {"awful": 0.0, "bad": 1.0, "slow": 2.0, "good": 4.0, "great": 5.0}
    rows = [[f"the film was {word}", "good film", score] for word, score in scores.items()]
    return _csv(folder / "rows.csv", ["sentence1", "sentence2", "score"], rows)


def write_ranking(folder: Path) -> Path:
    rows = [
        [f"where is the {animal}", f"the {colour} {other} sleeps", int(animal == other)]
        for animal in ANIMALS
        for colour in COLOURS
        for other in ANIMALS
    ]
    return _csv(folder / "rows.csv", ["query", "passage", "label"], rows)


def _questions(unanswerable: bool) -> list[dict[str, Any]]:
    rows = []
    for number, (name, city) in enumerate(
        [("anna", "paris"), ("bert", "rome"), ("anna", "london"), ("bert", "paris"), ("anna", "rome")]
    ):
        context = f"{name} lives in {city} and works at acme"
        answers = {"text": [city], "answer_start": [context.index(city)]}
        rows.append(
            {"id": str(number), "question": f"where is {name}", "context": context, "answers": answers}
        )
        if unanswerable:
            empty = {"text": [], "answer_start": []}
            rows.append({"id": f"{number}n", "question": "who runs", "context": context, "answers": empty})
    return rows


def write_squad(folder: Path) -> Path:
    return _jsonl(folder / "rows.jsonl", _questions(unanswerable=False))


def write_squad2(folder: Path) -> Path:
    return _jsonl(folder / "rows.jsonl", _questions(unanswerable=True))


def write_choices(folder: Path) -> Path:
    rows = [
        {
            "context": f"the {colour} {animal} sleeps .",
            "question": "who sleeps",
            "choices": [animal, ANIMALS[1 - index]] if position == 0 else [ANIMALS[1 - index], animal],
            "label": position,
        }
        for colour in COLOURS[:3]
        for index, animal in enumerate(ANIMALS)
        for position in (0, 1)
    ]
    return _jsonl(folder / "rows.jsonl", rows)


def write_tags(folder: Path) -> Path:
    path = folder / "rows.conll"
    sentences = [
        [("Anna", "I-PER"), ("lives", "O"), ("in", "O"), ("Paris", "I-LOC")],
        [("Bert", "I-PER"), ("works", "O"), ("at", "O"), ("Acme", "I-ORG"), ("Rome", "B-ORG")],
        [("the", "O"), ("cat", "O"), ("runs", "O"), ("in", "O"), ("London", "I-LOC")],
    ]
    path.write_text(
        "\n\n".join("\n".join(f"{word} {tag}" for word, tag in sentence) for sentence in sentences), "utf-8"
    )
    return path


def predict_label(folder: Path) -> Callable[[dict[str, Any]], Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)

    def predict(row: dict[str, Any]) -> Any:
        inputs = tokenizer(row["text"], row.get("text_pair"), return_tensors="pt")
        logits = model(**inputs).logits[0]
        return logits.item() if len(logits) == 1 else logits.argmax().item()

    return predict


def predict_labels(folder: Path) -> Callable[[dict[str, Any]], Any]:
    classify = pipeline("text-classification", str(folder), top_k=None)

    def predict(row: dict[str, Any]) -> list[int]:
        ids = classify.model.config.label2id
        return sorted(ids[one["label"]] for one in classify([row["text"]])[0] if one["score"] >= 0.5)

    return predict


def predict_answer(folder: Path) -> Callable[[dict[str, Any]], Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder)

    def predict(row: dict[str, Any]) -> str:
        inputs = tokenizer(row["question"], row["context"], return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        parts = inputs.sequence_ids(0)
        output = model(**inputs)
        starts, ends = output.start_logits[0], output.end_logits[0]
        spans = [
            ((starts[first] + ends[last]).item(), row["context"][offsets[first][0] : offsets[last][1]])
            for first, part in enumerate(parts)
            for last in range(first, len(parts))
            if part == 1 and parts[last] == 1
        ]
        best = max(spans)
        return (
            "" if model.config.name_or_path.endswith("squad2") and starts[0] + ends[0] > best[0] else best[1]
        )

    return predict


def predict_choice(folder: Path) -> Callable[[dict[str, Any]], Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMultipleChoice.from_pretrained(folder)

    def predict(row: dict[str, Any]) -> int:
        contexts = [row["context"]] * len(row["choices"])
        endings = [f"{row['question']} {choice}" for choice in row["choices"]]
        inputs = tokenizer(contexts, endings, return_tensors="pt", padding=True)
        return model(**{name: value[None] for name, value in inputs.items()}).logits[0].argmax().item()

    return predict


def predict_tags(folder: Path) -> Callable[[dict[str, Any]], Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder)

    def predict(row: dict[str, Any]) -> list[str]:
        inputs = tokenizer(row["words"], is_split_into_words=True, return_tensors="pt")
        best = model(**inputs).logits[0].argmax(dim=-1).tolist()
        first = {word: token for token, word in reversed(list(enumerate(inputs.word_ids(0))))}
        return [model.config.id2label[best[first[word]]] for word in range(len(row["words"]))]

    return predict


EXAMPLES = {
    "classification": Example("classification", write_classification, predict_label),
    "pair": Example("mrpc", write_pairs, predict_label),
    "multi-label": Example("multi-label", write_label_sets, predict_labels),
    "regression": Example("stsb", write_regression, predict_label),
    "ranking": Example("ranking", write_ranking, predict_label, steps=100),
    "squad": Example("squad", write_squad, predict_answer, steps=100),
    "squad2": Example("squad2", write_squad2, predict_answer, steps=100),
    "multiple-choice": Example("race", write_choices, predict_choice, steps=100),
    "token-classification": Example("token-classification", write_tags, predict_tags),
}


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float):
        return bool(torch.isclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-4))
    return bool(ours == theirs)
