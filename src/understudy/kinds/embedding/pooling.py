"""The pooling of an encoder's states into one vector, and the files that describe it."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers.utils.hub import cached_file

from understudy.errors import ModelError
from understudy.hub import split_revision

logger = logging.getLogger(__name__)

MODULES, DENSE = "modules.json", "2_Dense"
_POOLING, _LENGTH = "1_Pooling", "sentence_bert_config.json"
_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_OTHER_MODES = (
    "pooling_mode_max_tokens",
    "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens",
)
_KNOWN = [
    ["Transformer", "Pooling", *dense, *normalize]
    for dense in ([], ["Dense"])
    for normalize in ([], ["Normalize"])
]
_ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": None,
    "torch.nn.modules.activation.Tanh": "tanh",
}


@dataclass(frozen=True)
class Pooling:
    """The pooling of an encoder's states into one vector.

    Attributes:
        mode: `mean` over the real tokens, or the state of the first (`cls`) or the `last` real one.
        dimension: the width of the vector.
        normalize: whether the vector has length 1.
        dense: whether there is a linear layer between the pooled state and the vector.
        bias, activation: settings of that layer.
    """

    mode: str
    dimension: int
    normalize: bool = True
    dense: bool = False
    bias: bool = True
    activation: str | None = None


def pooling_of(config: Any) -> Pooling:
    """Return the pooling of a model: from its config, from its `modules.json`, or a normalised mean."""
    saved = getattr(config, "pooling", None)
    if saved is not None:
        return Pooling(**saved)
    model = str(config.name_or_path)
    found = _read_modules(model) if model else None
    if found is None and model:
        _say(logging.INFO, f"{model} has no {MODULES}: its vectors are the mean of its tokens, normalised.")
    return found or Pooling("mean", config.hidden_size)


def set_pooling(config: Any, teacher_config: Any | None) -> None:
    """Write a model's pooling into its config; a student has the pooling and dimension of its teacher."""
    pooling = pooling_of(config if teacher_config is None else teacher_config)
    if pooling.dimension != config.hidden_size:
        pooling = replace(pooling, dense=True)
    config.pooling = asdict(pooling)


def _read_modules(model: str) -> Pooling | None:
    """Read the files of a sentence-transformers model; None if it is a plain encoder."""
    modules = _read(model, MODULES)
    if modules is None:
        return None
    names = [one["type"].rpartition(".")[2] for one in modules]
    if names not in _KNOWN:
        raise ModelError(
            f"{model} has the modules {', '.join(names)}. A teacher of embeddings must have Transformer and "
            "Pooling, then at most one Dense, then at most one Normalize."
        )
    prompt = (_read(model, "config_sentence_transformers.json") or {}).get("default_prompt_name")
    if prompt:
        _say(
            logging.WARNING,
            f"{model} puts its prompt {prompt!r} before every text by default. It is not added here: put it "
            "into your texts.",
        )
    settings = _read(model, f"{modules[1]['path']}/config.json") or {}
    mode = _mode(model, settings)
    pooling = Pooling(mode, _width(settings), normalize="Normalize" in names)
    if "Dense" not in names:
        return pooling
    dense = _read(model, f"{modules[names.index('Dense')]['path']}/config.json") or {}
    activation = dense.get("activation_function", "torch.nn.modules.activation.Tanh")  # their default
    if activation not in _ACTIVATIONS:
        raise ModelError(f"{model} has a Dense module with {activation}; only Identity and Tanh are known.")
    return replace(
        pooling,
        dimension=dense["out_features"],
        dense=True,
        bias=dense.get("bias", True),
        activation=_ACTIVATIONS[activation],
    )


@functools.cache
def _say(level: int, message: str) -> None:
    """Log a message once: a config is read many times in a run."""
    logger.log(level, message)


def _mode(model: str, settings: Mapping[str, Any]) -> str:
    """Return the mode of a Pooling module, given by flags in older versions and by name in newer ones."""
    named = settings.get("pooling_mode")
    if named is not None:
        found = ["last" if named == "lasttoken" else named]
    else:
        found = [mode for flag, mode in _MODES.items() if settings.get(flag)]
        found += [flag for flag in _OTHER_MODES if settings.get(flag)]
    if len(found) != 1 or found[0] not in _MODES.values():
        raise ModelError(
            f"{model} pools by {' and '.join(map(str, found)) or 'nothing'}; one of mean, cls and last is "
            "needed."
        )
    return str(found[0])


def _width(settings: Mapping[str, Any]) -> int:
    return int(settings.get("word_embedding_dimension") or settings["embedding_dimension"])


def _read(model: str, name: str, *, revision: str | None = None) -> Any:
    """Read a JSON file of a model's folder or repository; None if there is none."""
    path = find_file(model, name, revision=revision)
    return None if path is None else json.loads(path.read_text("utf-8"))


def find_file(model: str, name: str, *, revision: str | None = None) -> Path | None:
    """Return a file of a model's folder or repository; None if there is none."""
    folder, own = split_revision(model)
    if Path(folder).is_dir():
        path = Path(folder) / name
        return path if path.is_file() else None
    subfolder, _, file = name.rpartition("/")
    found = cached_file(
        folder,
        file,
        revision=revision or own,
        subfolder=subfolder,
        _raise_exceptions_for_missing_entries=False,
    )
    return None if found is None else Path(found)


def read_dense(model: str, *, revision: str | None = None) -> dict[str, Tensor] | None:
    """Read the weights of a model's Dense module; None if it has none."""
    modules = _read(model, MODULES, revision=revision) or []
    paths = [one["path"] for one in modules if one["type"].endswith(".Dense")]
    if not paths:
        return None
    file = find_file(model, f"{paths[0]}/model.safetensors", revision=revision)
    if file is not None:
        found = load_file(file)
    else:
        older = find_file(model, f"{paths[0]}/pytorch_model.bin", revision=revision)
        if older is None:
            raise ModelError(f"{model} has a Dense module without weights in {paths[0]}.")
        found = torch.load(older, weights_only=True)
    return {key.removeprefix("linear."): value.float() for key, value in found.items()}


def write_modules(folder: Path, pooling: Pooling, hidden_size: int) -> None:
    """Write the files that make a folder with an encoder a sentence-transformers model."""
    modules = [("Transformer", ""), ("Pooling", _POOLING)]
    modules += [("Dense", DENSE)] if pooling.dense else []
    modules += [("Normalize", f"{len(modules)}_Normalize")] if pooling.normalize else []
    _write(
        folder / MODULES,
        [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
            for place, (name, path) in enumerate(modules)
        ],
    )
    flags = {flag: pooling.mode == mode for flag, mode in _MODES.items()} | dict.fromkeys(_OTHER_MODES, False)
    _write(folder / _POOLING / "config.json", {"word_embedding_dimension": hidden_size, **flags})
    if pooling.dense:
        names = {mode: name for name, mode in _ACTIVATIONS.items()}
        _write(
            folder / DENSE / "config.json",
            {
                "in_features": hidden_size,
                "out_features": pooling.dimension,
                "bias": pooling.bias,
                "activation_function": names[pooling.activation],
            },
        )


def write_length(folder: Path, max_length: int, *, with_pooler: bool) -> None:
    """Write the number of tokens after which a text is cut.

    Args:
        with_pooler: whether the encoder's class would get BERT's pooler, which was not saved.
    """
    arguments = {"model_args": {"add_pooling_layer": False}} if with_pooler else {}
    _write(folder / _LENGTH, {"max_seq_length": max_length, "do_lower_case": False, **arguments})


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
