"""Load tokenizers and encoders from a folder or the hub, with clear errors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils.hub import cached_file

from understudy.data.kind import Kind
from understudy.data.labels import check_labels, named_labels
from understudy.data.task import Task
from understudy.data.tokens import PAD_TO_MULTIPLE_OF
from understudy.errors import ModelError, did_you_mean
from understudy.hub import no_tokenizer, split_revision
from understudy.models.families import num_positions
from understudy.models.heads import has_head_for

logger = logging.getLogger(__name__)


def load_config(model: str) -> Any:
    """Load the config of a model folder or hub name; `name@revision` names a commit, tag or branch."""
    _check_exists(model)
    try:
        name, revision = split_revision(model)
        config = AutoConfig.from_pretrained(name, revision=revision)
    except Exception as error:  # for a broken config.json transformers raises all sorts of errors
        raise ModelError(
            f"{model!r} is neither a model's folder here nor a hub name that can be reached."
            f"{did_you_mean(model, _folders_here())} {error}\nGive a "
            "folder saved with save_pretrained, or a hub name where there is a network."
        ) from error
    config.name_or_path = model  # with its revision, for files that are read later
    return config


def load_tensors_beside(model: str, file: str) -> dict[str, Tensor]:
    """Load a safetensors file saved beside a model's weights; empty if there is none."""
    name, revision = split_revision(model)
    found = cached_file(
        name,
        file,
        revision=revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return load_file(found) if found is not None else {}


def _folders_here() -> list[str]:
    """Return the names of model folders in the current folder."""
    return [one.parent.name for one in Path().glob("*/config.json")]


def load_tokenizer(model: str) -> PreTrainedTokenizerFast:
    """Load the fast tokenizer of a model folder or hub name."""
    _check_exists(model)
    try:
        name, revision = split_revision(model)
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
    except Exception as error:  # for a broken tokenizer.json: plain Exceptions, and TypeErrors
        raise ModelError(
            f"{model!r} has no tokenizer that can be loaded: {error}\nSave it beside the model with "
            "tokenizer.save_pretrained."
        ) from error
    if len(tokenizer) <= len(set(tokenizer.all_special_tokens)):  # what transformers makes without files
        raise ModelError(no_tokenizer(model))
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ModelError(
            f"{model!r} has a slow tokenizer ({type(tokenizer).__name__}); a fast one is needed for "
            "character offsets. Convert it to tokenizer.json."
        )
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{model!r}: the tokenizer must have a padding token; it has none.")
    return tokenizer


def local_folder(model: str) -> str:
    """Return the local folder of a model, downloading it from the hub if needed."""
    if Path(model).expanduser().is_dir():
        return str(Path(model).expanduser())
    _check_exists(model)
    try:
        name, revision = split_revision(model)
        patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
        return str(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{model!r} is neither a model's folder here nor a hub name that can be reached: {error}"
        ) from None


def _check_exists(model: str) -> None:
    path = Path(model).expanduser()
    if model.startswith((".", "/", "~")) and not path.is_dir():
        raise ModelError(f"a model must be a folder or a hub name; {model} is not a folder. Check the path.")


def hash_tokenizer(tokenizer: PreTrainedTokenizerFast) -> str:
    """Hash everything that affects how a text is tokenised, except truncation and padding."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    read = {name: value for name, value in content.items() if name not in ("truncation", "padding")}
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def check_max_length(
    config: Any, tokenizer: PreTrainedTokenizerFast, max_length: int, *, key: str = "data.max_length"
) -> None:
    """Refuse a length that exceeds the position embeddings once a batch is padded."""
    longest = tokenizer.model_max_length
    limit = min(longest, num_positions(config) or longest)
    limit -= limit % PAD_TO_MULTIPLE_OF
    if max_length > limit:
        raise ModelError(
            f"{key} is {max_length}, and the model reads at most {limit} tokens. Use "
            f"--set {key}={limit} or less."
        )


def load_model(
    model: str,
    task: Task,
    labels: Sequence[str] | None,
    *,
    fine_tuned: bool,
    dropout: float | None = None,
    attention: str | None = None,
    teacher_config: Any | None = None,
) -> PreTrainedModel:
    """Load an encoder with the task's head, in float32.

    Args:
        labels: the data's labels, compared with a fine-tuned model's and written into a new head's config.
        fine_tuned: if True, refuse a checkpoint without the task's head; if False, give it a new one, drawn
            from torch's random state.
        dropout: every dropout probability of the config; None leaves them unchanged.
        attention: an `attn_implementation` of transformers; None leaves the choice to transformers.
        teacher_config: its teacher's config, if the model is a student.
    """
    config = load_config(model)
    if has_head_for(config, task):
        wrong = task.kind.check_head(config)
        if wrong is not None:
            raise ModelError(
                f"{model} does not fit {task.kind}: {wrong}. Use a model fine-tuned for it, or an encoder "
                "without a head."
            )
        if labels is not None:
            names = named_labels(config.id2label)
            labels = check_labels(model, names, config.num_labels, labels)
            if names is None:
                logger.warning(
                    "%s does not name its labels; its ids are taken in this order: %s",
                    model,
                    ", ".join(labels),
                )
    elif fine_tuned:
        found = ", ".join(config.architectures or ("none",))
        raise ModelError(
            f"{model} has no head for {task.kind} (its architecture is {found}). Fine-tune it first: "
            f"understudy finetune {model} --task {task.name} …"
        )
    task.kind.configure(config, labels, teacher_config)
    set_dropout(config, dropout)
    options = {"attn_implementation": attention} if attention else {}
    name, revision = split_revision(model)
    try:
        with refuse_programs(model):
            return read_model(task.kind, name, config, revision=revision, dtype=torch.float32, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"{model!r} cannot be loaded for {task.kind}: {error}") from error


@contextlib.contextmanager
def refuse_programs(model: str) -> Iterator[None]:
    """Refuse a weights file that also contains code. torch does not run it, but suggests allowing it."""
    try:
        yield
    except pickle.UnpicklingError:
        raise ModelError(
            f"{model!r} holds more than weights: a program that would run while it is loaded. It was not "
            "run. Use a model that was saved as safetensors."
        ) from None


def build_model(kind: Kind, config: Any) -> PreTrainedModel:
    """Build a model for a kind with new weights, drawn from torch's random state."""
    own = kind.own_class(config)
    made: PreTrainedModel = (
        own._from_config(config)
        if own is not None
        else getattr(transformers, kind.auto_class).from_config(config)
    )
    return made


def read_model(kind: Kind, name: str, config: Any, **options: Any) -> PreTrainedModel:
    """Load a model for a kind with `from_pretrained`."""
    model_class = kind.own_class(config) or getattr(transformers, kind.auto_class)
    made: PreTrainedModel = model_class.from_pretrained(name, config=config, **options)
    return made


def default_device() -> torch.device:
    """Return the accelerator if there is one, otherwise the CPU."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found or torch.device("cpu")


def load_encoder(
    model: str, *, dropout: float | None = None, attention: str | None = None
) -> PreTrainedModel:
    """Load a model without a head, in float32. See `load_model` for `dropout` and `attention`."""
    config = load_config(model)
    set_dropout(config, dropout)
    options = {"attn_implementation": attention} if attention else {}
    name, revision = split_revision(model)
    with refuse_programs(model):
        encoder: PreTrainedModel = transformers.AutoModel.from_pretrained(
            name, revision=revision, config=config, dtype=torch.float32, **options
        )
    encoder.train(False)
    return encoder


def set_dropout(config: Any, dropout: float | None) -> None:
    """Set every dropout probability of a config; None leaves them unchanged."""
    for name, value in vars(config).items():
        if dropout is not None and "dropout" in name and isinstance(value, float):
            setattr(config, name, dropout)
