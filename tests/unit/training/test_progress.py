from __future__ import annotations

import logging
import re
from datetime import datetime

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from understudy.training.progress import EndEstimate, ProgressLines, shown_figures


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
    (message,) = caplog.messages
    assert re.fullmatch(r"intermediate: step 50 of 600, ends about .*\d\d:\d\d: loss 0.5, lr 0.0001", message)


def test_the_end_follows_from_the_steps_since_the_last_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run continued at step 100 of 400 that makes 50 steps in 10 minutes ends in 50 minutes."""
    noon = datetime(2026, 1, 1, 12, 0).timestamp()
    monkeypatch.setattr("understudy.training.progress.time.time", lambda: noon)
    end = EndEstimate()
    end.start(100)
    monkeypatch.setattr("understudy.training.progress.time.time", lambda: noon + 600)
    assert end.at(TrainerState(global_step=150, max_steps=400)).endswith("13:00")
