"""What a figure depends on: hashes of models and versions of packages."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path

from transformers.utils.hub import cached_file, extract_commit_hash

from understudy.errors import ModelError
from understudy.files import hash_file
from understudy.hub import split_revision
from understudy.models.pretrained import load_config
from understudy.recipe.recipe import Recipe


def versions() -> dict[str, str]:
    """Of everything that can change a figure."""
    names = ("torch", "transformers", "datasets", "tokenizers", "numpy")
    ours = {"python": platform.python_version(), "understudy": metadata.version("understudy-distill")}
    return ours | {name: metadata.version(name) for name in names}


# Beside weights and config, the files that decide how a model reads a text.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)


def hash_model(model: str) -> str:
    """Hash a model's weights, config and tokenizer; a hub model is its name and commit."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        try:
            name, revision = split_revision(model)
            commit = extract_commit_hash(cached_file(name, "config.json", revision=revision), None)
        except OSError:
            load_config(model)  # says what is wrong
            raise
        if commit is None:
            raise ModelError(f"the hub's commit of {model!r} cannot be told. Save the model to a folder.")
        return f"{name}@{commit}"
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        is_named = file.name in ("config.json", *_TOKENIZER_FILES)
        if is_named or file.suffix in (".safetensors", ".bin", ".model"):
            digest.update(file.name.encode() + bytes.fromhex(hash_file(file)))
    return digest.hexdigest()


def hash_start(recipe: Recipe) -> dict[str, str]:
    """The hash of what a student is started from, where that is a model of its own."""
    name = recipe.student.model or recipe.student.source
    return {"student": hash_model(name)} if name is not None else {}
