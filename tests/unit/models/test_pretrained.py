from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast, RobertaTokenizer

from understudy.data.tasks import get_task
from understudy.errors import ModelError
from understudy.models.pretrained import check_max_length, load_tokenizer


def byte_level(folder: Path) -> Path:
    """A RoBERTa-like tokenizer: a space belongs to the word after it, and none is put before the first."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {piece: index for index, piece in enumerate(special + letters)}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", cls_token="<s>", sep_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    config = (folder / "tokenizer_config.json").read_text()
    (folder / "tokenizer_config.json").write_text(
        config.replace(PreTrainedTokenizerFast.__name__, RobertaTokenizer.__name__).replace(
            "TokenizersBackend", RobertaTokenizer.__name__
        )
    )
    AutoConfig.for_model("roberta", vocab_size=len(vocabulary)).save_pretrained(folder)
    return folder


def test_words_given_one_by_one_keep_the_space_before_them(tmp_path: Path) -> None:
    folder = str(byte_level(tmp_path))
    ids = load_tokenizer(folder, get_task("conll2003"))(["to", "be"], is_split_into_words=True)["input_ids"]
    plain = load_tokenizer(folder)(" to be")["input_ids"]
    assert ids == plain


@pytest.mark.parametrize(
    ("family", "positions", "limit"),
    # RoBERTa's first two positions are for padding; a batch is padded to a multiple of 4.
    [("bert", 512, 512), ("roberta", 514, 512), ("roberta", 512, 508), ("bert", 38, 36), ("mpnet", 514, 512)],
)
def test_the_longest_length_a_model_can_hold(
    family: str, positions: int, limit: int, tokenizer: PreTrainedTokenizerFast
) -> None:
    config = AutoConfig.for_model(family, max_position_embeddings=positions, pad_token_id=1)
    tokenizer.model_max_length, kept = 10**9, tokenizer.model_max_length
    try:
        check_max_length(config, tokenizer, limit)
        with pytest.raises(ModelError, match=f"reads at most {limit} tokens"):
            check_max_length(config, tokenizer, limit + 1)
    finally:
        tokenizer.model_max_length = kept
