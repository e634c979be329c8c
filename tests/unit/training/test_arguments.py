from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest
from transformers import TrainingArguments

from understudy.distillation.runs import choose_on_dev
from understudy.errors import RecipeError
from understudy.kinds.tasks import get_task
from understudy.training.argument_names import OWNED, argument_types, check_training
from understudy.training.arguments import DEFAULTS, build_arguments


def test_values_get_their_types() -> None:
    # YAML 1.1 reads 1e-4 as a text.
    assert check_training({"learning_rate": "1e-4", "num_train_epochs": 3}) == {
        "learning_rate": 1e-4,
        "num_train_epochs": 3.0,
    }


def test_no_is_a_word_where_a_word_is_wanted() -> None:
    # YAML 1.1 reads no as false.
    checked = check_training({"eval_strategy": False, "save_strategy": False, "bf16": False})
    assert checked == {"eval_strategy": "no", "save_strategy": "no", "bf16": False}


def test_a_recipe_goes_before_our_defaults(tmp_path: Path) -> None:
    arguments = build_arguments({"logging_steps": 7, "report_to": "none"}, tmp_path)
    assert arguments.logging_steps == 7
    assert arguments.report_to == []
    assert arguments.logging_nan_inf_filter is False


def test_every_name_we_use_is_an_argument() -> None:
    check_training(dict(DEFAULTS))
    from transformers import TrainingArguments

    assert set(OWNED) <= set(TrainingArguments.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("per_device_train_batch_size", 0, "must be at least 1; got 0"),
        ("gradient_accumulation_steps", 0, "must be at least 1; got 0"),
        ("learning_rate", -1, "must be at least 0; got -1"),
        ("report_to", "nosuch", "nosuch is not known"),
        ("report_to", ["tensorboard", "wandb"], "wandb is not installed"),
    ],
)
def test_what_training_would_fail_on_is_refused_before(
    name: str, value: object, said: str, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=rf"training\.{name}.*{said}"):
        build_arguments({name: value}, tmp_path)


def test_a_best_model_is_so_by_a_metric_of_the_task() -> None:
    for metric in ("f1", "eval_accuracy", "loss"):
        choose_on_dev({"metric_for_best_model": metric}, get_task("mrpc"))
    with pytest.raises(RecipeError, match=r"mrpc has no metric f2 \(there are f1, accuracy\)"):
        choose_on_dev({"metric_for_best_model": "f2"}, get_task("mrpc"))


def test_names_and_types_are_those_of_training_arguments() -> None:
    hints = typing.get_type_hints(TrainingArguments)
    real = {field.name: hints[field.name] for field in dataclasses.fields(TrainingArguments) if field.init}
    found = argument_types()
    assert list(found) == list(real)
    plain = (int, float, bool, str, type(None))
    for name, kind in real.items():
        parts = typing.get_args(kind) or (kind,)
        if all(part in plain for part in parts):
            assert found[name] == kind, name


@pytest.mark.parametrize("steps", [0, -5])
def test_steps_are_counted_from_one(steps: int, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=rf"max_steps must be at least 1, or -1 .*; got {steps}"):
        build_arguments({"max_steps": steps}, tmp_path)
    assert build_arguments({"max_steps": -1}, tmp_path).max_steps == -1
