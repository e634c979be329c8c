from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.data.blocks import fill_blocks, fill_pairs, sentence_ends, split_sentences

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=20)


def numbered(sizes: list[int], start: int = 0) -> list[np.ndarray]:
    """Sentences of so many tokens, all tokens different."""
    ids = np.arange(start, start + sum(sizes))
    return np.split(ids, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ('He said "no." Then left.', ['He said "no." ', "Then left."]),
        ("A title\nA line\n\nAnother", ["A title\n", "A line\n\n", "Another"]),
        ("これは文です。次の文。", ["これは文です。", "次の文。"]),
        ("3.14 is not two", ["3.14 is not two"]),
        ("", [""]),
    ],
)
def test_sentences_end_where_a_reader_would_say(text: str, sentences: list[str]) -> None:
    ends = sentence_ends(text)
    assert [text[start:end] for start, end in zip([0, *ends], ends, strict=False)] == sentences


def test_tokens_belong_to_the_sentence_they_end_in() -> None:
    # "One. Two. Six": of the second sentence's first token the space before it may be a part.
    found = split_sentences([5, 6, 7, 8, 9], [3, 4, 8, 9, 13], sentence_ends("One. Two. Six"))
    assert [part.tolist() for part in found] == [[5, 6], [7, 8], [9]]
    assert split_sentences([], [], [3]) == []


@given(lengths, st.integers(1, 50))
def test_blocks_hold_every_token_once_and_break_between_sentences(sizes: list[int], room: int) -> None:
    sentences = numbered(sizes)
    blocks = list(fill_blocks(sentences, room))
    assert np.concatenate(blocks).tolist() == list(range(sum(sizes)))
    assert all(0 < len(block) <= room for block in blocks)
    starts = {int(sentence[0]) for sentence in sentences}
    inside = {
        int(part[0])
        for sentence in sentences
        for part in np.split(sentence, range(room, len(sentence), room))
    }
    assert {int(block[0]) for block in blocks} <= starts | inside


def test_a_block_is_as_full_as_whole_sentences_make_it() -> None:
    blocks = fill_blocks(numbered([4, 4, 4, 9, 2]), 10)
    assert [len(block) for block in blocks] == [8, 4, 9, 2]
    assert [len(block) for block in fill_blocks(numbered([25, 3]), 10)] == [10, 10, 8]


@given(st.lists(lengths, min_size=1, max_size=5), st.integers(2, 50), st.integers(0, 1000))
def test_pairs_fit_and_their_first_segments_go_through_the_document(
    documents: list[list[int]], room: int, seed: int
) -> None:
    held = [numbered(sizes, 10_000 * number) for number, sizes in enumerate(documents)]
    pairs = list(fill_pairs(held, 0, room, np.random.default_rng(seed)))
    own = sum(documents[0])
    for first, second in pairs:
        assert len(first) + len(second) <= room
        assert len(first)
        assert len(second)
        assert (first < own).all()
        for segment in (first, second):  # tokens in a row of one document
            assert (np.diff(segment) == 1).all()
    assert [first.tolist() for first, _ in pairs] == sorted(first.tolist() for first, _ in pairs)


def test_about_half_of_the_second_segments_are_another_documents() -> None:
    held = [numbered([8] * 4_000), numbered([8] * 50, 1_000_000)]
    pairs = list(fill_pairs(held, 0, 64, np.random.default_rng(0)))
    share = np.mean([second[0] >= 1_000_000 for _, second in pairs])
    assert abs(share - 0.5) < 4 * 0.5 / len(pairs) ** 0.5 + 0.02  # a single sentence always takes another's
    follows = [second[0] == first[-1] + 1 for first, second in pairs if second[0] < 1_000_000]
    assert np.mean(follows) > 0.2  # truncation may take tokens between the two
