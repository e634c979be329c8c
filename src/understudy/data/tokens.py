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
        """Encode texts, or pairs of them."""
        if seconds is None:
            return self._encode([[self._shorten(text) for text in firsts]])
        pairs = [self._shorten_pair(*pair) for pair in zip(firsts, seconds, strict=True)]
        return self._encode([[first for first, _ in pairs], [second for _, second in pairs]])

    def _encode(self, columns: Sequence[Sequence[str]]) -> list[Encoding]:
        return self.backend.encode_batch(
            list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
        )

    def _is_long(self, text: str) -> bool:
        return len(text) > _MANY_CHARACTERS * self.max_length

    def _shorten(self, text: str) -> str:
        """Cut a text that is far longer than what is read.

        The backend keeps what it cuts off, and of a pair in every combination: of two long texts that is
        memory by the square of their length.
        """
        return self._cut(text, self._read_whole(text), self.max_length) if self._is_long(text) else text

    def _shorten_pair(self, first: str, second: str) -> tuple[str, str]:
        """Shorten both texts of a pair so that the longer one stays the longer one.

        The backend shares the room by which of the two is longer, and of an odd number of tokens the longer
        one gets one more.
        """
        if not (self._is_long(first) or self._is_long(second)):
            return first, second
        read = [self._read_whole(text) for text in (first, second)]
        # The shorter one is left with at most 2 times max_length, the longer with 3 times or all it has.
        least = [self.max_length, 3 * self.max_length]
        if len(read[0].ids) > len(read[1].ids):
            least.reverse()
        return self._cut(first, read[0], least[0]), self._cut(second, read[1], least[1])

    def _read_whole(self, text: str) -> Encoding:
        return self.whole.encode(text, add_special_tokens=False)

    def _cut(self, text: str, read: Encoding, least: int) -> str:
        """Cut a text between two words, to at least `least` tokens and at most `max_length` more."""
        words, spans, count = read.word_ids, read.offsets, len(read.ids)
        if count <= least:
            return text
        kept = range(least, min(least + self.max_length, count))
        left = self.truncation_side == "left"
        places = [count - number for number in kept] if left else list(kept)
        # A word without an end is cut anywhere.
        place = next((place for place in places if words[place] != words[place - 1]), places[-1])
        return text[spans[place][0] :] if left else text[: spans[place - 1][1]]

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
