from __future__ import annotations

from pathlib import Path

from understudy.training.arguments import DEFAULTS, OWNED, build_arguments, check_training


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
