"""The search against a plain sort, and what is made of its findings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from understudy.mining.found import Found, drop_duplicates, merge_found
from understudy.mining.rows import balanced_places, pair_rows, single_rows
from understudy.mining.search import Nearest
from understudy.mining.sentences import Sentence, document_sentences, fingerprint, length_range


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("block", [1, 7, 100])
def test_the_nearest_are_those_of_a_sort(block: int) -> None:
    generator = np.random.default_rng(0)
    queries, vectors = unit(generator.normal(size=(30, 8))), unit(generator.normal(size=(100, 8)))
    nearest = Nearest(queries, 5)
    for start in range(0, 100, block):
        nearest.add(vectors[start : start + block], start)
    expected = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :5]
    assert nearest.numbers_QK.tolist() == expected.tolist()
    assert np.allclose(nearest.similarities_QK, np.take_along_axis(queries @ vectors.T, expected, axis=1))


def test_of_equal_sentences_the_first_is_kept() -> None:
    nearest = Nearest(unit(np.ones((1, 2))), 2)
    for number in range(4):
        nearest.add(unit(np.ones((1, 2))), number)
    assert nearest.numbers_QK.tolist() == [[0, 1]]


def test_sentences_of_documents() -> None:
    """An excluded sentence is found neither by itself nor as the one that follows another."""
    text = "A short one. This one is just right! And so is this one. That one too, surely.\nA new paragraph."
    excluded = {fingerprint("and so is THIS one")}
    found = list(document_sentences([text, None, text], (15, 30), excluded))
    assert found == [
        Sentence("This one is just right!", ""),
        Sentence("That one too, surely.", ""),
        Sentence("A new paragraph.", ""),
    ]
    assert Sentence("This one is just right!", "And so is this one.") in document_sentences(
        [text], (15, 30), ()
    )
    assert not list(document_sentences(["It has a zero\x00 byte."], (1, 90), ()))


def test_the_range_of_lengths_leaves_out_the_longest() -> None:
    assert length_range(["a" * 10] * 500 + ["a" * 5000]) == (10, 10)


def found(query: int, similarity: float, text: str, following: str = "") -> Found:
    return Found(query, similarity, Sentence(text, following))


VECTORS = {"a": 0.0, "near a": 0.1, "b": 1.0, "in dev": 2.0, "c": 3.0}


def embed(texts: list[str]) -> np.ndarray:
    """Angles on a circle."""
    angles = np.array([VECTORS[text] for text in texts])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def test_near_duplicates_are_dropped_and_counted() -> None:
    """Those of any query, also of one that the sentence was not found for."""
    queries, excluded = embed(["b", "c"]), embed(["in dev"])
    given = [[found(0, 0.9, "a"), found(0, 0.8, "near a"), found(0, 0.7, "c")]]
    given.append([found(1, 0.9, "in dev"), found(1, 0.5, "near a", "in dev")])
    kept, counts = drop_duplicates(given, embed, queries, excluded, 0.95)
    assert [[one.text for one in row] for row in kept] == [["a"], ["near a"]]
    assert kept[1][0].following == ""  # it is like a development row
    assert counts == {"like_a_training_row": 1, "like_a_closer_sentence": 1, "like_an_excluded_row": 1}


def test_without_excluded_rows_nothing_is_like_them() -> None:
    none = np.empty((0, 2), np.float32)
    kept, counts = drop_duplicates([[found(0, 0.9, "a")], []], embed, none, none, 0.95)
    assert [len(row) for row in kept] == [1, 0]
    assert not counts


def test_single_rows_are_distinct_and_closest_first() -> None:
    rows = single_rows([[found(0, 0.5, "One.")], [found(1, 0.7, "two"), found(1, 0.9, "one")]], "text")
    assert rows == [{"text": "one", "similarity": 0.9}, {"text": "two", "similarity": 0.7}]


def test_pairs_in_the_stated_mix() -> None:
    """The sentence stands where its text stood, the partner on the other side."""
    given = []
    for row in range(500):
        given.append([found(2 * row, 0.5, f"first {row} {n}", f"after {row} {n}") for n in range(3)])
        given.append(
            [found(2 * row + 1, 0.4, f"second {row} {n}", f"after second {row} {n}") for n in range(3)]
        )
    shares = {"neighbours": 0.5, "adjacent": 0.25, "random": 0.25}
    rows = pair_rows(given, ("text", "text_pair"), shares, 0, None)
    counts = Counter(row["pair"] for row in rows)
    assert counts["neighbours"] / len(rows) == pytest.approx(0.5, abs=0.06)
    assert counts["adjacent"] / len(rows) == pytest.approx(0.25, abs=0.05)
    for row in rows:
        texts = (row["text"], row["text_pair"])
        if row["pair"] == "neighbours":
            assert texts[0].split()[1] == texts[1].split()[1]
            assert [text.split()[0] for text in texts] == ["first", "second"]
        elif row["pair"] == "adjacent":
            own, after = texts if row["similarity"] == 0.5 else texts[::-1]
            assert after == own.replace("first", "after").replace("second", "after second")
        else:
            assert [text.split()[0] for text in texts] == ["first", "second"]
    again = pair_rows(given, ("text", "text_pair"), shares, 0, None)
    assert rows == again


def test_augmented_pairs_and_sentences_without_a_partner() -> None:
    given = [[found(0, 0.5, "one"), found(0, 0.4, "two")], [found(1, 0.3, "three")]]
    rows = pair_rows(
        given, ("text", "text_pair"), {"augmented": 1.0}, 0, lambda texts: [f"new {texts[0]}", None, None]
    )
    assert (rows[0]["text"], rows[0]["text_pair"], rows[0]["pair"]) == ("one", "new one", "augmented")
    # Nothing was changed in the others: each gets a random partner of the other side.
    assert (rows[1]["text"], rows[1]["text_pair"], rows[1]["pair"]) == ("two", "three", "random")
    assert all(row["text_pair"] == "three" for row in rows[1:])


def test_a_side_without_finds_takes_partners_from_the_other() -> None:
    given: list[list[Found]] = [[found(0, 0.5, "one"), found(0, 0.4, "two")], []]
    rows = pair_rows(given, ("text", "text_pair"), {"neighbours": 1.0}, 0, None)
    assert {(row["text"], row["text_pair"]) for row in rows} == {("one", "two"), ("two", "one")}


def test_balance_without_groups_keeps_the_first() -> None:
    assert balanced_places(None, 10, 3).tolist() == [0, 1, 2]


def test_files_are_merged(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, rows in enumerate([[(0, 0.5, "a"), (1, 0.9, "b")], [(0, 0.8, "c"), (0, 0.5, "A.")]]):
        columns = dict(zip(("query", "similarity", "text"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns | {"following": [""] * len(rows)}), tmp_path / f"{number}.parquet")
    merged = merge_found(sorted(tmp_path.iterdir()), 2, 2)
    assert [[one.text for one in row] for row in merged] == [["c", "a"], ["b"]]
