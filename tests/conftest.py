"""Tiny real parts: a BERT of a few thousand weights and a WordPiece tokenizer, made on the spot."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# The same precision on every machine: fp32, also where bf16 would be the faster one.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE"
# Tiny models are faster on one thread, and several test processes and their commands share the machine.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest
from transformers import PreTrainedTokenizerFast

from small_models import make_tokenizer, write_encoder

# How long an example takes says nothing where several processes share the machine.
hypothesis.settings.register_profile("understudy", deadline=None)
hypothesis.settings.load_profile("understudy")

ASSETS = Path(__file__).parents[2] / "shared" / "assets"
WORDS = [
    "good",
    "bad",
    "film",
    "was",
    "the",
    "a",
    "very",
    "not",
    "great",
    "awful",
    "movie",
    "and",
    "it",
    "is",
    "what",
    "who",
    "where",
    "which",
    "city",
    "river",
    "mountain",
    "lies",
    "in",
    "north",
    "south",
    "of",
    "paris",
    "rome",
    "london",
    "anna",
    "bert",
    "lives",
    "works",
    "at",
    "acme",
    "big",
    "small",
    "red",
    "blue",
    "green",
    "fast",
    "slow",
    "cat",
    "dog",
    "runs",
    "sleeps",
    ".",
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked rows of one test are no other test's."""
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def assets() -> Path:
    if not ASSETS.is_dir():
        pytest.skip("the real encoder and data are not beside the project (../shared/assets)")
    return ASSETS


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    letters = [chr(code) for code in range(33, 127)]
    return make_tokenizer([*letters, *(f"##{letter}" for letter in letters), *WORDS])


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerFast) -> Path:
    """A pretrained-looking checkpoint without a task head."""
    return write_encoder(tmp_path_factory.mktemp("encoder"), tokenizer)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folder a test lies in is its mark."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in ("docs", "faults"):
            folder = "integration"
        if folder in ("unit", "integration", "real"):
            item.add_marker(folder)
