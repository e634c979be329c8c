"""A progress bar that carries its figures, instead of a line of text per log."""

from __future__ import annotations

from typing import Any

from transformers import ProgressCallback, TrainerControl, TrainerState, TrainingArguments


class FiguresOnTheBar(ProgressCallback):
    """Trainer's bar with the latest loss, learning rate and dev scores beside it.

    Trainer's own writes each log as a dictionary to standard output, which is kept for `--json`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, str] = {}

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or self.training_bar is None:
            return
        for name, value in (logs or {}).items():
            if name in ("loss", "learning_rate") or (
                name.startswith("eval_") and not name.endswith(("runtime", "per_second"))
            ):
                self.figures[name.replace("eval_", "dev ").replace("learning_rate", "lr")] = f"{value:.4g}"
        self.training_bar.set_postfix(self.figures)
