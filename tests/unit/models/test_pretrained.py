from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoConfig, PreTrainedTokenizerFast

from understudy.errors import ModelError
from understudy.models.pretrained import check_max_length, load_config, load_tokenizer


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


def test_a_misspelt_folder_is_answered_with_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=r"'encodr' is neither .* Did you mean 'encoder'\?"):
        load_config("encodr")


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    AutoConfig.for_model("bert").save_pretrained(tmp_path)
    with pytest.raises(
        ModelError, match=r"has no tokenizer: tokenizer\.json, vocab\.txt or the like is missing"
    ):
        load_tokenizer(str(tmp_path))
