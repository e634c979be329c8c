"""Hashes of models and versions of packages, on which results depend."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path

from transformers.utils.hub import cached_file, extract_commit_hash

from understudy.artifacts.artifact import ARTIFACT, is_artifact, split_form
from understudy.errors import ModelError
from understudy.files import hash_file
from understudy.hub import split_revision
from understudy.models.pretrained import load_config
from understudy.recipe.recipe import Recipe


def versions() -> dict[str, str]:
    """Return the versions of everything that can change a result."""
    names = ("torch", "transformers", "datasets", "tokenizers", "numpy")
    ours = {"python": platform.python_version(), "understudy": metadata.version("understudy-distill")}
    return ours | {name: metadata.version(name) for name in names}


# Tokenizer files, which affect the inputs of a model.
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
    """Hash a model's weights, config and tokenizer; a hub model is identified by its name and commit."""
    folder = Path(split_form(model)[0]).expanduser()
    if not folder.is_dir():
        try:
            name, revision = split_revision(model)
            commit = extract_commit_hash(cached_file(name, "config.json", revision=revision), None)
        except OSError:
            load_config(model)  # explains what is wrong
            raise
        if commit is None:
            raise ModelError(
                f"the hub's commit of {model!r} cannot be determined. Save the model to a folder."
            )
        return f"{name}@{commit}"
    if is_artifact(folder):
        return hash_file(folder / ARTIFACT)  # which has the hashes of all other files
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        is_named = file.name in ("config.json", *_TOKENIZER_FILES)
        if is_named or file.suffix in (".safetensors", ".bin", ".model"):
            digest.update(file.name.encode() + bytes.fromhex(hash_file(file)))
    if (folder / "modules.json").is_file():  # sentence-transformers' modules after the encoder
        parts = [folder / "modules.json", *sorted(folder.glob("[0-9]_*/*"))]
        for file in parts:
            if file.suffix in (".json", ".safetensors", ".bin"):
                digest.update(file.relative_to(folder).as_posix().encode() + bytes.fromhex(hash_file(file)))
    return digest.hexdigest()


def hash_start(recipe: Recipe) -> dict[str, str]:
    """Hash the model that a student starts from, if it has one of its own."""
    name = recipe.student.model or recipe.student.source
    return {"student": hash_model(name)} if name is not None else {}
