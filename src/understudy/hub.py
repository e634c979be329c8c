"""Names of models and datasets on the hub."""

from __future__ import annotations

import re
from pathlib import Path

from understudy.errors import ModelError, closest, did_you_mean


def split_revision(name: str) -> tuple[str, str | None]:
    """Split `name@revision` into both; an existing folder or file keeps its whole name.

    >>> split_revision("google-bert/bert-base-uncased@main")
    ('google-bert/bert-base-uncased', 'main')
    """
    if Path(name).expanduser().exists():
        return name, None
    name, _, revision = name.partition("@")
    return name, revision or None


def check_model_name(name: str, key: str) -> None:
    """Refuse a model that is neither a local folder nor a possible hub name, without asking the hub.

    Args:
        key: what the model is for, in messages.
    """
    bare, revision = split_revision(name)
    path = Path(bare).expanduser()
    if path.is_dir():
        return
    if path.is_file():
        raise ModelError(f"{key} must be a folder or a hub name; {name} is a file.")
    # Hub names are user/name: nothing deeper and, without a revision, nothing below an existing folder.
    below_a_folder = revision is None and "/" in bare and path.parent.is_dir()
    if bare.startswith((".", "/", "~")) or bare.count("/") > 1 or below_a_folder:
        beside = [one.name for one in path.parent.iterdir() if one.is_dir()] if path.parent.is_dir() else []
        close = closest(path.name, beside)
        hint = f" Did you mean {path.parent / close}?" if close else " Check the path."
        if below_a_folder and is_hub_name(bare):
            hint += f" If it is on the hub, write {bare}@main."
        raise ModelError(f"{key}: there is no folder {name}.{hint}")
    if not (is_hub_name(bare) or is_hub_name(f"user/{bare}")):
        raise ModelError(f"{key} must be a folder, or a hub name like user/name; got {name!r}.")


def check_reachable(name: str, key: str) -> None:
    """Refuse a folder without a model, and a hub name that is not in the cache if the hub is switched off.

    Args:
        key: what the model is for, in messages.
    """
    bare, revision = split_revision(name)
    path = Path(bare).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"{key}: there is no model in the folder {name}: it has no config.json. Give a folder that "
                "save_pretrained or understudy finetune wrote."
            )
        return
    from huggingface_hub import constants, try_to_load_from_cache

    if constants.HF_HUB_OFFLINE and not isinstance(
        try_to_load_from_cache(bare, "config.json", revision=revision), str
    ):
        beside = [one.parent.name for one in Path().glob("*/config.json")]
        raise ModelError(
            f"{key}: {name} is neither a folder here nor in the hub's cache, and HF_HUB_OFFLINE is set."
            f"{did_you_mean(name, beside)} Give a folder saved with save_pretrained, or unset HF_HUB_OFFLINE."
        )


# Of any tokenizer that transformers can read.
_TOKENIZER_FILES = ("tokenizer*.json", "vocab*", "merges.txt", "*.model", "*.tiktoken")


def check_tokenizer_files(name: str) -> None:
    """Refuse a local model without any file of a tokenizer."""
    folder = Path(name).expanduser()
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
        raise ModelError(no_tokenizer(name))


def no_tokenizer(name: str) -> str:
    """Return the message for a model without a tokenizer."""
    return (
        f"{name!r} has no tokenizer: tokenizer.json, vocab.txt or the like is missing. Save it beside the "
        "model with tokenizer.save_pretrained."
    )


def is_hub_name(name: str) -> bool:
    """Return whether a name has the form `user/name` of a repository.

    >>> is_hub_name("ada/reviews-4l"), is_hub_name("./reviews"), is_hub_name("runs/reviews/artifact")
    (True, False, False)
    """
    form = re.compile(r"[a-z0-9]([\w.-]*[a-z0-9_])?/[a-z0-9_]([\w.-]*[a-z0-9_])?", re.ASCII | re.IGNORECASE)
    forbidden = ("--", "..", ".git/")
    return bool(form.fullmatch(name)) and not any(part in f"{name}/" for part in forbidden)
