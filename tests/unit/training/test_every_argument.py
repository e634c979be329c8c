"""Every TrainingArguments key works in every stage, or is refused with a reason."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from understudy import DistillationTrainer, PredictionObjectives, TinyBertObjectives, get_kind
from understudy.data.encode import Collator, encode
from understudy.errors import RecipeError
from understudy.recipe.recipe import Recipe
from understudy.training.arguments import build_arguments
from understudy.training.trainer import OrderedTrainer

# A value other than the default for every key, with what it needs beside it.
VALUES: dict[str, Any] = {
    "output_dir": "elsewhere",
    "per_device_train_batch_size": 2,
    "num_train_epochs": 2.0,
    "max_steps": 1,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "cosine",
    "lr_scheduler_kwargs": {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0}},
    "warmup_steps": 1,
    "optim": "sgd",
    "optim_args": {"optim": "adamw_torch", "optim_args": "amsgrad=True"},
    "weight_decay": 0.1,
    "adam_beta1": 0.8,
    "adam_beta2": 0.9,
    "adam_epsilon": 1e-6,
    "optim_target_modules": ["attention"],
    "gradient_accumulation_steps": 2,
    "average_tokens_across_devices": False,
    "max_grad_norm": 0.5,
    "label_smoothing_factor": 0.1,
    "bf16": True,
    "fp16": True,
    "bf16_full_eval": True,
    "fp16_full_eval": True,
    "tf32": True,
    "gradient_checkpointing": True,
    "gradient_checkpointing_kwargs": {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {}},
    "torch_compile": True,
    "torch_compile_backend": "eager",
    "torch_compile_mode": "default",
    "use_liger_kernel": True,
    "liger_kernel_config": {"liger_kernel_config": {"rope": True}},
    "use_cache": True,
    "neftune_noise_alpha": 5.0,
    "torch_empty_cache_steps": 1,
    "auto_find_batch_size": True,
    "logging_strategy": "epoch",
    "logging_steps": 1,
    "logging_first_step": True,
    "log_on_each_node": False,
    "logging_nan_inf_filter": True,
    "include_num_input_tokens_seen": True,
    "log_level": "error",
    "log_level_replica": "error",
    "disable_tqdm": False,
    "report_to": "tensorboard",
    "run_name": "mine",
    "project": "mine",
    "trackio_space_id": "mine",
    "trackio_bucket_id": "mine",
    "trackio_static_space_id": "mine",
    "eval_strategy": "epoch",
    "eval_steps": {"eval_strategy": "steps", "eval_steps": 1},
    "eval_delay": 1,
    "per_device_eval_batch_size": 2,
    "prediction_loss_only": True,
    "eval_on_start": {"eval_strategy": "epoch", "eval_on_start": True},
    "eval_do_concat_batches": False,
    "eval_use_gather_object": True,
    "eval_accumulation_steps": 1,
    "include_for_metrics": ["loss"],
    "batch_eval_metrics": True,
    "save_only_model": True,
    "save_strategy": "epoch",
    "save_steps": {"save_strategy": "steps", "save_steps": 1},
    "save_on_each_node": True,
    "save_total_limit": 1,
    "enable_jit_checkpoint": True,
    "push_to_hub": True,
    "hub_token": "secret",
    "hub_private_repo": True,
    "hub_model_id": "me/mine",
    "hub_strategy": "end",
    "hub_always_push": True,
    "hub_revision": "main",
    "load_best_model_at_end": {
        "load_best_model_at_end": True,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "metric_for_best_model": "accuracy",
    },
    "metric_for_best_model": "accuracy",
    "greater_is_better": True,
    "ignore_data_skip": True,
    "restore_callback_states_from_checkpoint": True,
    "full_determinism": True,
    "seed": 1,
    "data_seed": 1,
    "use_cpu": True,
    "accelerator_config": {"accelerator_config": {"even_batches": False}},
    "parallelism_config": None,
    "dataloader_drop_last": True,
    "dataloader_num_workers": {"dataloader_num_workers": 1, "dataloader_persistent_workers": True},
    "dataloader_pin_memory": False,
    "dataloader_persistent_workers": True,
    "dataloader_prefetch_factor": 2,
    "dataloader_multiprocessing_context": "spawn",
    "dataloader_in_order": False,
    "remove_unused_columns": True,
    "label_names": ["labels"],
    "train_sampling_strategy": "random",
    "length_column_name": "size",
    "ddp_find_unused_parameters": True,
    "ddp_bucket_cap_mb": 10,
    "ddp_broadcast_buffers": True,
    "ddp_static_graph": True,
    "ddp_backend": "gloo",
    "ddp_timeout": 60,
    "fsdp": "full_shard",
    "fsdp_config": {"fsdp_config": {"version": 2}},
    "deepspeed": {"deepspeed": {"zero_optimization": {"stage": 1}}},
    "debug": "underflow_overflow",
    "skip_memory_metrics": False,
    "do_train": True,
    "do_eval": True,
    "do_predict": True,
    "resume_from_checkpoint": "checkpoint-1",
    "local_rank": 0,
}
FIELDS = [field.name for field in dataclasses.fields(TrainingArguments) if field.init]
STAGES = ("finetune", "intermediate", "prediction")


def test_every_key_is_walked() -> None:
    """A new release of transformers with a key more is seen here first."""
    assert sorted(VALUES) == sorted(FIELDS)


def model(layers: int, size: int, vocabulary: int) -> BertForSequenceClassification:
    torch.manual_seed(layers)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * size,
        max_position_embeddings=64,
    )
    return BertForSequenceClassification(config)


@pytest.fixture(scope="module")
def rows(tokenizer: Any) -> Dataset:
    texts = ["good film", "bad film", "the cat runs", "it was a very slow movie"]
    data = {"row": list(range(4)), "text": texts, "label": [0, 1] * 2}
    encoded = encode(Dataset.from_dict(data), get_kind("classification"), tokenizer, max_length=32)
    return encoded.add_column("teacher_logits", [[0.0, 1.0]] * 4)


def build(stage: str, rows: Dataset, tokenizer: Any, arguments: TrainingArguments) -> Any:
    student, teacher = (model(layers, size, len(tokenizer)) for layers, size in ((2, 16), (4, 24)))
    shared: dict[str, Any] = {
        "args": arguments,
        "train_dataset": rows,
        "eval_dataset": rows,
        "processing_class": tokenizer,
    }
    scored = shared | {
        "compute_metrics": lambda given: {"accuracy": float(np.mean(given.predictions.argmax(-1)))}
    }
    if stage == "finetune":
        plain = rows.remove_columns("teacher_logits")
        shown = scored | {"train_dataset": plain, "eval_dataset": plain}
        return OrderedTrainer(student, data_collator=Collator(tokenizer), **shown)
    if stage == "intermediate":
        return DistillationTrainer(student, teacher, TinyBertObjectives(), **shared)
    return DistillationTrainer(student, None, PredictionObjectives(get_kind("classification")), **scored)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("key", [name for name in FIELDS if name != "parallelism_config"])
@pytest.mark.filterwarnings("ignore")
def test_a_key_works_or_is_refused_with_a_reason(
    key: str, stage: str, rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    value = VALUES[key]
    given = value if isinstance(value, dict) else {key: value}
    values: dict[str, Any] = {"task": "mrpc"}
    values |= (
        {"training": given}
        if stage == "finetune"
        else {"method": "tinybert", "intermediate": {}, "prediction": {}, stage: {"training": given}}
    )
    quiet = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "max_steps": 2,
        "eval_strategy": "no",
    }
    quiet |= {"save_strategy": "no", "per_device_train_batch_size": 4}
    refused = ""
    try:
        recipe = Recipe.from_mapping(values)
        block = recipe.training if stage == "finetune" else getattr(recipe, stage).training
        arguments = build_arguments({**quiet, **block}, tmp_path)
        trainer = build(stage, rows, tokenizer, arguments)
    except RecipeError as error:
        refused = str(error)
    if refused:
        # The key itself, and at least a few words on why or what instead.
        assert any(re.search(rf"\b{name}\b", refused) for name in given), refused
        assert len(refused.split()) >= 6, refused
        return
    try:
        trainer.train()
        if stage != "intermediate":
            trainer.evaluate()
    finally:
        torch.use_deterministic_algorithms(False)
