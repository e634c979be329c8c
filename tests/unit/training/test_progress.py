from __future__ import annotations

import logging

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from understudy.training.progress import ProgressLines, shown_figures


def test_single_terms_and_times_are_left_out() -> None:
    logs = {"loss": 0.51234, "learning_rate": 1e-4, "epoch": 1.0, "eval_f1": 0.9, "eval_loss_hidden_1": 2.0}
    assert shown_figures(logs | {"eval_runtime": 3.0}) == {"loss": "0.5123", "lr": "0.0001", "dev f1": "0.9"}


def test_a_log_that_is_no_terminal_has_a_line_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    lines, state = ProgressLines(), TrainerState(global_step=50, max_steps=600)
    arguments = TrainingArguments("students/mrpc/intermediate/training", report_to="none")
    with caplog.at_level(logging.INFO, logger="understudy"):
        lines.on_log(arguments, state, TrainerControl(), {"loss": 0.5})  # too soon
        lines.last -= 60
        lines.on_log(arguments, state, TrainerControl(), {"learning_rate": 1e-4})
    assert caplog.messages == ["intermediate: step 50 of 600: loss 0.5, lr 0.0001"]
