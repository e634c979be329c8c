"""Candidates to replace a word (TinyBERT Algorithm 1, lines 5 to 10): the masked language model's most
probable words, or the nearest ones by word vectors.

Every forward pass has a fixed number of rows for its length, filled up with copies if there are fewer, so
that the result for a row does not depend on how many others there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.augmentation.replace import Question
from understudy.augmentation.vectors import Vectors
from understudy.augmentation.words import is_word
from understudy.data.encode import special_tokens
from understudy.errors import ModelError

# B batch, L tokens, H hidden size, V vocabulary

LENGTH_STEP = 8
TOKENS_PER_PASS = 4_096
_SPELLINGS = 4  # spellings of the word itself that may be among the most probable


class MaskedWords:
    """The most probable whole words of a masked language model at a masked position of a text.

    Args:
        count: K, the number of words.
        max_length: the number of tokens around the position that the model reads.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        *,
        count: int,
        max_length: int,
        precision: torch.dtype = torch.float32,
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise ModelError("the model that offers words must have a mask token; its tokenizer has none.")
        self.model = model
        model.train(False)
        self.tokenizer = tokenizer
        self.count = count
        self.precision = precision
        before, after = special_tokens(tokenizer)
        self.before, self.after = before, after
        self.window = max_length - len(before) - len(after)
        self.words = whole_words(tokenizer, model.config.vocab_size)
        allowed = [word is not None for word in self.words]
        self.penalty_V = torch.zeros(len(allowed), device=model.device)
        self.penalty_V[~torch.tensor(allowed)] = -torch.inf
        needed = count + _SPELLINGS
        if sum(allowed) < needed:
            raise ModelError(f"the model's vocabulary has {sum(allowed)} whole words; {needed} are needed.")

    def __call__(self, questions: Sequence[Question]) -> list[tuple[str, ...]]:
        """Return the candidates for each question, most probable first, without the word itself."""
        if not questions:
            return []
        inputs = self.mask(questions)
        by_length = defaultdict(list)
        for place, (ids, _) in enumerate(inputs):
            by_length[-(-len(ids) // LENGTH_STEP) * LENGTH_STEP].append(place)
        result: list[tuple[str, ...]] = [()] * len(questions)
        # Around all passes: autocast caches the weights it has cast, but not in inference mode.
        with torch.no_grad(), self._autocast():
            for length, places in sorted(by_length.items(), reverse=True):
                rows = rows_of(length)
                for start in range(0, len(places), rows):
                    part = places[start : start + rows]
                    best_BK = self.most_probable([inputs[place] for place in part], length, rows)
                    for place, ids in zip(part, best_BK, strict=False):
                        result[place] = self._others(questions[place].word, ids)
        return result

    def _autocast(self) -> torch.autocast:
        enabled = self.precision != torch.float32
        return torch.autocast(self.model.device.type, dtype=self.precision, enabled=enabled)

    def _others(self, word: str, ids: Sequence[int]) -> tuple[str, ...]:
        words = dict.fromkeys(str(self.words[token]) for token in ids)
        return tuple(other for other in words if other.casefold() != word.casefold())[: self.count]

    def mask(self, questions: Sequence[Question]) -> list[tuple[list[int], int]]:
        """Return each text's token ids with one mask in place of the word's tokens, and its position."""
        texts = list(dict.fromkeys(question.text for question in questions))
        encoded = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        found = {
            text: (ids, np.asarray(offsets, dtype=np.int64).reshape(-1, 2))
            for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        }
        return [self._mask_one(*found[question.text], question.span) for question in questions]

    def _mask_one(
        self, ids: list[int], offsets: np.ndarray[Any, Any], span: tuple[int, int]
    ) -> tuple[list[int], int]:
        start, stop = pieces_of(offsets, span)
        mask = self.tokenizer.mask_token_id
        masked = [*ids[:start], mask, *ids[stop:]]
        # For a long text, keep the surroundings of the word, as much before it as after it if possible.
        left = max(0, min(start - self.window // 2, len(masked) - self.window))
        masked = [*self.before, *masked[left : left + self.window], *self.after]
        return masked, len(self.before) + start - left

    def most_probable(
        self, inputs: Sequence[tuple[list[int], int]], length: int, rows: int
    ) -> list[list[int]]:
        """Return token ids of whole words at the masks, a few more than K."""
        padding = self.tokenizer.pad_token_id
        filled = [*inputs, *[inputs[-1]] * (rows - len(inputs))]
        ids_BL = torch.tensor([ids + [padding] * (length - len(ids)) for ids, _ in filled])
        mask_BL = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in filled])
        places_B = torch.tensor([place for _, place in filled])
        device = self.model.device
        logits_BV = self.logits(ids_BL.to(device), mask_BL.to(device), places_B.to(device))
        best: list[list[int]] = (
            (logits_BV + self.penalty_V).topk(self.count + _SPELLINGS, dim=-1).indices.tolist()
        )
        return best

    def logits(self, ids_BL: Tensor, mask_BL: Tensor, places_B: Tensor) -> Tensor:
        """Return the model's logits at one position per row; only that position goes through the head."""

        def keep_places(_: Any, __: Any, output: Any) -> Any:
            states_BLH = output[0]
            rows = torch.arange(len(states_BLH), device=states_BLH.device)
            output.last_hidden_state = states_BLH[rows, places_B][:, None]
            return output

        hook = self.model.base_model.register_forward_hook(keep_places)
        try:
            output = self.model(input_ids=ids_BL, attention_mask=mask_BL)
        finally:
            hook.remove()
        logits_BV: Tensor = output.logits[:, 0]
        return logits_BV


def rows_of(length: int) -> int:
    """Return how many rows of a length go through the model together."""
    return max(1, TOKENS_PER_PASS // length)


def pieces_of(offsets: np.ndarray[Any, Any], span: tuple[int, int]) -> tuple[int, int]:
    """Return the range of tokens that overlap a span of characters."""
    touched = np.flatnonzero((offsets[:, 0] < span[1]) & (offsets[:, 1] > span[0]))
    if not len(touched):  # characters that the tokenizer drops
        place = int(np.searchsorted(offsets[:, 0], span[0]))
        return place, place
    return int(touched[0]), int(touched[-1]) + 1


def whole_words(tokenizer: PreTrainedTokenizerFast, size: int) -> list[str | None]:
    """Return the word for each token id that is a whole word; None for word pieces and special tokens."""
    texts = [text.strip() for text in tokenizer.batch_decode([[token] for token in range(len(tokenizer))])]
    special = set(tokenizer.all_special_ids)
    again = tokenizer([f"a {text}" if is_word(text) else "a" for text in texts], add_special_tokens=False)
    alone = tokenizer("a", add_special_tokens=False)["input_ids"]
    words: list[str | None] = [None] * size
    for token, (text, ids) in enumerate(zip(texts, again["input_ids"], strict=True)):
        if token < size and token not in special and is_word(text) and ids == [*alone, token]:
            words[token] = text
    return words


class Candidates:
    """The source of candidates, as chosen by TinyBERT Algorithm 1.

    Single-token words get candidates from the masked language model. Multi-token words get them from the
    vectors if these contain the word, otherwise from the model with one mask. Entities get others of their
    type.
    """

    def __init__(
        self,
        masked_words: MaskedWords,
        vectors: Vectors | None,
        entities: Mapping[str, Sequence[str]],
    ) -> None:
        self.masked_words = masked_words
        self.vectors = vectors
        self.entities = entities
        # Cached for each distinct word: its neighbours, and whether it has several tokens.
        self._near: dict[str, tuple[str, ...]] = {}
        self._has_pieces: dict[str, bool] = {}

    def __call__(self, questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
        """Return the candidates by question."""
        asked = list(dict.fromkeys(questions))
        answers: dict[Question, Sequence[str]] = {
            question: [name for name in self.entities[question.entity] if name != question.word]
            for question in asked
            if question.entity is not None
        }
        words = [question for question in asked if question.entity is None]
        if self.vectors is not None:
            self._look_up({question.word for question in words})
            answers |= {
                question: self._near[question.word] for question in words if question.word in self._near
            }
        rest = [question for question in words if question not in answers]
        return answers | dict(zip(rest, self.masked_words(rest), strict=True))

    def _look_up(self, words: set[str]) -> None:
        """Look up the neighbours of new words that have several tokens."""
        new = sorted(words - set(self._has_pieces))
        if not new or self.vectors is None:
            return
        # Tokenised after another word, the usual case: the first word of a text may be treated differently.
        pieces = self.masked_words.tokenizer([f"a {word}" for word in new], add_special_tokens=False)
        self._has_pieces |= {word: len(ids) > 2 for word, ids in zip(new, pieces["input_ids"], strict=True)}
        several = [word for word in new if self._has_pieces[word]]
        self._near |= self.vectors.neighbours(several, self.masked_words.count)
