"""Texts to tokens, by the `tokenizers` library alone: training reads by it, and so can a process without
torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenizers import Encoding, Tokenizer

from understudy.data.tasks import KindName
from understudy.errors import RecipeError

# As in BERT's own script; less where windows are short, so that a window always has room for context.
DEFAULT_STRIDE = 128
MAX_QUESTION_TOKENS = 64
# Kernels like even widths. Multiples of 8 cost short texts 7 % of their speed (docs/LOG.md).
PAD_TO_MULTIPLE_OF = 4
# Texts with more characters than this for each token that is read are shortened first.
_MANY_CHARACTERS = 16


@dataclass(frozen=True)
class Window:
    """A piece of a context behind its question.

    Attributes:
        question: its place among the questions.
        starts, ends: the first character of each token of the context and the one behind its last; -1 for
            other tokens.
    """

    question: int
    encoding: Encoding
    starts: list[int]
    ends: list[int]


class TextReader:
    """How the texts of a kind are tokenised and cut.

    Args:
        backend: of which the reader has a copy.
        max_length: tokens, special ones included; longer inputs are cut, contexts of questions into windows.
        stride: tokens that neighbouring windows share; 128, or a third of the window where that is less,
            where not given. Of no effect on other kinds.
        truncation_side: from which texts are cut.
    """

    def __init__(
        self,
        backend: Tokenizer,
        kind: KindName,
        *,
        max_length: int,
        stride: int | None = None,
        truncation_side: str = "right",
    ) -> None:
        self.max_length = max_length
        self.truncation_side = truncation_side
        self.backend = Tokenizer.from_str(backend.to_str())
        self.backend.no_padding()
        self.backend.no_truncation()
        self.whole = Tokenizer.from_str(self.backend.to_str())  # which cuts nothing
        self.question_limit = min(MAX_QUESTION_TOKENS, max_length // 3)
        strategy = "longest_first"
        self.stride = 0
        if kind == "question-answering":
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
        """Texts, or pairs of them."""
        columns = [
            [self._shorten(text) for text in texts] for texts in (firsts, seconds) if texts is not None
        ]
        return self._encode(columns)

    def _encode(self, columns: Sequence[Sequence[str]]) -> list[Encoding]:
        return self.backend.encode_batch(
            list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
        )

    def _shorten(self, text: str) -> str:
        """A text far longer than is read, cut behind a word that is not.

        What is left over of a pair is kept by its backend in every combination: of two long texts that is
        memory by the square of their length.
        """
        if len(text) <= _MANY_CHARACTERS * self.max_length:
            return text
        read = self.whole.encode(text, add_special_tokens=False)
        words, spans, count = read.word_ids, read.offsets, len(read.ids)
        if count <= self.max_length:
            return text
        if self.truncation_side == "left":
            first = next(
                (
                    place
                    for place in range(count - self.max_length, 0, -1)
                    if words[place] != words[place - 1]
                ),
                max(0, count - 2 * self.max_length),  # one word, and no end of it
            )
            return text[spans[first][0] :]
        last = next(
            (place for place in range(self.max_length, count) if words[place] != words[place - 1]),
            min(count, 2 * self.max_length),
        )
        return text[: spans[last - 1][1]]

    def questions(self, questions: Sequence[str], contexts: Sequence[str]) -> Iterator[Window]:
        """Windows over contexts, each behind its question; a long question is cut."""
        whole = self.whole.encode_batch(list(questions), add_special_tokens=False)
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
        """Each choice beside the context."""
        return self.texts([context] * len(choices), [f"{question} {choice}".strip() for choice in choices])

    def words(self, rows: Sequence[Sequence[str]]) -> list[tuple[Encoding, list[int]]]:
        """Texts given as words, with the place of the word whose first piece a token is; -1 for others.

        A word the tokenizer makes nothing of (a lone control character) has no piece.
        """
        encodings = self.backend.encode_batch([list(row) for row in rows], is_pretokenized=True)
        return [(encoding, _first_pieces(encoding.word_ids)) for encoding in encodings]


def _first_pieces(words: Sequence[int | None]) -> list[int]:
    return [
        -1 if word is None or word == previous else word
        for previous, word in zip([None, *words], words, strict=False)
    ]


def padded_width(lengths: Sequence[int]) -> int:
    """What rows of such lengths are filled up to."""
    return -(-max(lengths) // PAD_TO_MULTIPLE_OF) * PAD_TO_MULTIPLE_OF
