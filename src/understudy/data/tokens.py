"""Tokenise texts with the `tokenizers` library alone, for training and for processes without torch."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Encoding, Tokenizer

from understudy.errors import DataError, RecipeError

# As in BERT's own script; smaller for short windows, so that a window always has room for context.
DEFAULT_STRIDE = 128
MAX_QUESTION_TOKENS = 64
# Kernels prefer even widths. Multiples of 8 make short texts 7 % slower (docs/LOG.md).
PAD_TO_MULTIPLE_OF = 4
# Texts with more characters per token that is kept are shortened first.
_MANY_CHARACTERS = 16


def tokenize(
    backend: Tokenizer, inputs: Sequence[Any], *, special_tokens: bool = True, offsets: bool = True
) -> list[Encoding]:
    """Tokenise texts, or pairs of them.

    A tokenizer's regular expression may take too many steps on some texts. The library then raises a
    `PanicException`, which derives from `BaseException` and would stop a server.

    Args:
        offsets: whether to return the places of the tokens in the texts, which takes longer.
    """
    encode = backend.encode_batch if offsets else backend.encode_batch_fast
    try:
        return encode(list(inputs), add_special_tokens=special_tokens)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(f"the tokenizer gave up on a text: {error}. Change the text or the model.") from None


@dataclass(frozen=True)
class Window:
    """A piece of a context after its question.

    Attributes:
        question: its index among the questions.
        starts, ends: the first character of each token of the context and the one after its last; -1 for
            other tokens.
    """

    question: int
    encoding: Encoding
    starts: list[int]
    ends: list[int]


class TextReader:
    """A reader that tokenises texts, and truncates them or splits them into windows.

    Args:
        backend: the tokenizer; the reader makes its own copy.
        max_length: tokens, including special ones; longer inputs are truncated, contexts of questions split
            into windows.
        stride: tokens shared by neighbouring windows. Defaults to 128, or a third of the window if that is
            less. No effect on other kinds.
        truncation_side: the side from which texts are truncated.
        windows: whether the second of two texts is read in windows.
    """

    def __init__(
        self,
        backend: Tokenizer,
        *,
        max_length: int,
        stride: int | None = None,
        truncation_side: str = "right",
        windows: bool = False,
    ) -> None:
        self.max_length = max_length
        self.truncation_side = truncation_side
        self.backend = Tokenizer.from_str(backend.to_str())
        self.backend.no_padding()
        self.backend.no_truncation()
        self.whole = Tokenizer.from_str(self.backend.to_str())  # without truncation
        self.question_limit = min(MAX_QUESTION_TOKENS, max_length // 3)
        strategy = "longest_first"
        self.stride = 0
        if windows:
            strategy = "only_second"
            self.stride = min(DEFAULT_STRIDE, max_length // 3) if stride is None else stride
            room = max_length - self.question_limit - self.backend.num_special_tokens_to_add(is_pair=True)
            if self.stride >= room:
                raise RecipeError(
                    f"data.stride must be less than {room} where data.max_length is {max_length}; got "
                    f"{self.stride}."
                )
        self.backend.enable_truncation(
            max_length, stride=self.stride, strategy=strategy, direction=truncation_side
        )

    def texts(self, firsts: Sequence[str], seconds: Sequence[str] | None = None) -> list[Encoding]:
        """Encode texts, or pairs of them."""
        if seconds is None:
            return self._encode([[self._shorten(text) for text in firsts]])
        pairs = [self._shorten_pair(*pair) for pair in zip(firsts, seconds, strict=True)]
        return self._encode([[first for first, _ in pairs], [second for _, second in pairs]])

    def _encode(self, columns: Sequence[Sequence[str]]) -> list[Encoding]:
        return tokenize(self.backend, columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)))

    def _is_long(self, text: str) -> bool:
        return len(text) > _MANY_CHARACTERS * self.max_length

    def _shorten(self, text: str) -> str:
        """Cut a text that is far longer than the limit.

        The backend keeps what it cuts off, and for a pair in every combination: for two long texts, its
        memory is quadratic in their length.
        """
        return self._cut(text, self._read_whole(text), self.max_length) if self._is_long(text) else text

    def _shorten_pair(self, first: str, second: str) -> tuple[str, str]:
        """Shorten both texts of a pair so that the longer one stays longer.

        The backend divides the available length depending on which text is longer, and gives the longer one
        the extra token of an odd number.
        """
        if not (self._is_long(first) or self._is_long(second)):
            return first, second
        read = [self._read_whole(text) for text in (first, second)]
        # The shorter one keeps at most 2 times max_length, the longer one 3 times or everything.
        least = [self.max_length, 3 * self.max_length]
        if len(read[0].ids) > len(read[1].ids):
            least.reverse()
        return self._cut(first, read[0], least[0]), self._cut(second, read[1], least[1])

    def _read_whole(self, text: str) -> Encoding:
        return tokenize(self.whole, [text], special_tokens=False)[0]

    def _cut(self, text: str, read: Encoding, least: int) -> str:
        """Cut a text between two words, to at least `least` and at most `max_length` more tokens."""
        words, spans, count = read.word_ids, read.offsets, len(read.ids)
        if count <= least:
            return text
        kept = range(least, min(least + self.max_length, count))
        left = self.truncation_side == "left"
        places = [count - number for number in kept] if left else list(kept)
        # A word that does not end in this range is cut anywhere.
        place = next((place for place in places if words[place] != words[place - 1]), places[-1])
        return text[spans[place][0] :] if left else text[: spans[place - 1][1]]

    def questions(self, questions: Sequence[str], contexts: Sequence[str]) -> Iterator[Window]:
        """Yield windows over contexts, each after its question; a long question is truncated."""
        whole = tokenize(self.whole, questions, special_tokens=False)
        cut = [
            text[: read.offsets[self.question_limit - 1][1]] if len(read.ids) > self.question_limit else text
            for text, read in zip(questions, whole, strict=True)
        ]
        for place, first in enumerate(self._encode([cut, contexts])):
            for encoding in (first, *first.overflowing):
                spans = [
                    span if part == 1 else (-1, -1)
                    for span, part in zip(encoding.offsets, encoding.sequence_ids, strict=True)
                ]
                yield Window(place, encoding, [start for start, _ in spans], [end for _, end in spans])

    def choices(self, context: str, question: str, choices: Sequence[str]) -> list[Encoding]:
        """Encode each choice with the context."""
        return self.texts([context] * len(choices), [f"{question} {choice}".strip() for choice in choices])

    def words(self, rows: Sequence[Sequence[str]]) -> list[TaggedWords]:
        """Encode texts given as words: joined by spaces, they are tokenised like any other text."""
        encodings = tokenize(self.backend, [" ".join(row) for row in rows])
        return [_tag_words(row, encoding) for row, encoding in zip(rows, encodings, strict=True)]

    def raw_words(self, texts: Sequence[str]) -> list[tuple[TaggedWords, list[tuple[int, int]]]]:
        """Encode texts that are not split into words, and return the span of each word."""
        encodings = tokenize(self.backend, texts)
        return [_tag_text(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]


@dataclass(frozen=True)
class TaggedWords:
    """A text whose words have tags.

    A word may have several parts: `U.S.` is `U`, `.`, `S` and `.`, as in unsplit text.

    Attributes:
        word_ids: for each token that carries a word's tag, the index of the word; -1 for others.
        inside_ids: the same for tokens that carry the tag of a later part of a word.
    """

    encoding: Encoding
    word_ids: list[int]
    inside_ids: list[int]


def _tag_words(words: Sequence[str], encoding: Encoding) -> TaggedWords:
    word_ids, inside_ids = [-1] * len(encoding.ids), [-1] * len(encoding.ids)
    start = 0
    for place, word in enumerate(words):
        parts = [start + first for first, _ in split_words(word)]
        for number, token in enumerate(_tokens_at(parts, encoding)):
            if token >= 0 and word_ids[token] < 0 and inside_ids[token] < 0:
                (inside_ids if number else word_ids)[token] = place
        start += len(word) + 1
    return TaggedWords(encoding, word_ids, inside_ids)


def _tag_text(text: str, encoding: Encoding) -> tuple[TaggedWords, list[tuple[int, int]]]:
    word_ids, spans = [-1] * len(encoding.ids), list[tuple[int, int]]()
    parts = split_words(text)
    for (start, end), token in zip(parts, _tokens_at([start for start, _ in parts], encoding), strict=True):
        if token >= 0 and word_ids[token] >= 0:  # a token with several parts makes them one word
            spans[-1] = (spans[-1][0], end)
            continue
        if token >= 0:
            word_ids[token] = len(spans)
        spans.append((start, end))
    return TaggedWords(encoding, word_ids, [-1] * len(encoding.ids)), spans


def _tokens_at(places: Sequence[int], encoding: Encoding) -> list[int]:
    """Return the token that contains each character; -1 if there is none, or if the text was cut off."""
    tokens = [
        (start, end, token)
        for token, ((start, end), part) in enumerate(
            zip(encoding.offsets, encoding.sequence_ids, strict=True)
        )
        if part == 0 and end > start
    ]
    starts = [start for start, _, _ in tokens]
    found = [bisect_right(starts, place) - 1 for place in places]
    return [
        tokens[number][2] if number >= 0 and place < tokens[number][1] else -1
        for place, number in zip(places, found, strict=True)
    ]


_PARTS = re.compile(r"\w+|[^\w\s]")


def split_words(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text's words: runs of letters and digits, and every other sign by itself.

    >>> split_words("the U.S.")
    [(0, 3), (4, 5), (5, 6), (6, 7), (7, 8)]
    """
    return [found.span() for found in _PARTS.finditer(text)]


def padded_width(lengths: Sequence[int]) -> int:
    """Return the width that rows of these lengths are padded to."""
    return -(-max(lengths) // PAD_TO_MULTIPLE_OF) * PAD_TO_MULTIPLE_OF
