from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from understudy.data.corpus import (
    BlockMaker,
    Blocks,
    block_counts,
    choose_held_out,
    first_copies,
    hash_documents,
    open_corpus,
    write_blocks,
)
from understudy.errors import DataError

TEXTS = ["the cat sleeps. the dog runs. " * 5, "a very small river.", "Paris lies in the north!"]


def test_copies_and_unreadable_documents_are_told_by_hash() -> None:
    hashes = hash_documents(["a", "b", None, "a", "A", None])
    assert hashes.shape == (6, 16)
    assert first_copies(hashes).tolist() == [True, True, False, False, True, False]


def test_held_out_documents_are_about_a_share_and_decided_by_their_text() -> None:
    hashes = hash_documents([f"document {number}" for number in range(20_000)])
    chosen = choose_held_out(hashes, 0.05)
    assert abs(chosen.mean() - 0.05) < 4 * (0.05 * 0.95 / 20_000) ** 0.5
    assert (choose_held_out(hashes[::-1], 0.05) == chosen[::-1]).all()
    assert not choose_held_out(hashes, 0.0).any()
    assert (choose_held_out(hashes, 0.5) | ~chosen).all()


def test_blocks_read_back_as_the_tokenizer_reads_the_texts(tokenizer: PreTrainedTokenizerFast) -> None:
    blocks = [ids for ids, _ in BlockMaker(tokenizer, 16, pairs=False)(TEXTS, np.random.default_rng(1))]
    assert all(len(ids) <= 16 and ids[0] == tokenizer.cls_token_id for ids in blocks)
    assert all(ids[-1] == tokenizer.sep_token_id for ids in blocks)
    inner = np.concatenate([ids[1:-1] for ids in blocks]).tolist()
    assert inner == [
        token for text in TEXTS for token in tokenizer(text, add_special_tokens=False)["input_ids"]
    ]
    # Eight tokens a pair of sentences: a block of 14 has three of four tokens.
    assert tokenizer.decode(blocks[0][1:-1]) == "the cat sleeps . the dog runs . the cat sleeps ."


def test_pairs_have_the_tokenizers_special_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    for ids, second in BlockMaker(tokenizer, 24, pairs=True)(TEXTS, np.random.default_rng(1)):
        places = np.flatnonzero(ids == tokenizer.sep_token_id)
        assert places.tolist() == [second - 1, len(ids) - 1]
        assert len(ids) <= 24


@pytest.mark.parametrize("pairs", [False, True])
def test_what_is_written_is_read(pairs: bool, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    maker = BlockMaker(tokenizer, 16, pairs=pairs)
    generator = np.random.default_rng(0)
    made = [
        [(generator.integers(0, 500, size).astype(maker.dtype), size // 2 * pairs) for size in sizes]
        for sizes in ([5, 9], [3])
    ]
    files = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    for file, blocks in zip(files, made, strict=True):
        write_blocks(file, blocks, maker, Counter(documents_kept=7))
    assert block_counts(files[0]) == {"documents_kept": 7, "blocks": 2, "tokens": 14}
    assert files[0].stat().st_size < 2_000
    opened = pickle.loads(pickle.dumps(Blocks(files, [2, 1])))
    assert len(opened) == 3
    for number, (ids, second) in enumerate([*made[0], *made[1]]):
        block = opened[number]
        assert block["input_ids"] == ids.tolist()
        assert block["row"] == number
        if pairs:
            assert block["token_type_ids"] == [0] * second + [1] * (len(ids) - second)
        else:
            assert "token_type_ids" not in block
    with pytest.raises(IndexError):
        opened[3]
    assert not list(tmp_path.glob("*.writing"))


def test_a_file_of_another_size_is_no_part_of_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="understudy corpus has finished"):
        open_corpus(tmp_path)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.arrow").write_bytes(b"123")
    (tmp_path / "result.json").write_text(
        '{"stage": "corpus", "files": {"train/a.arrow": {"bytes": 4, "blocks": 1}}}'
    )
    with pytest.raises(DataError, match="is not what understudy corpus wrote"):
        open_corpus(tmp_path)
