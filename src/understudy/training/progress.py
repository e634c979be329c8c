"""A progress bar that carries its figures, instead of a line of text per log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import ProgressCallback, TrainerControl, TrainerState, TrainingArguments


def stage_name(training_dir: Path) -> str:
    """What is trained in a folder.

    >>> stage_name(Path("students/mrpc/intermediate/training"))
    'intermediate'
    >>> stage_name(Path("students/mrpc/patient/trials/2/training"))
    'patient, trial 3'
    """
    *_, stage, folder, name = ("", "", *training_dir.parent.parts)
    return f"{stage}, trial {int(name) + 1}" if folder == "trials" and name.isdigit() else name


class FiguresOnTheBar(ProgressCallback):
    """Trainer's bar with the latest loss, learning rate and dev scores beside it.

    Trainer's own writes each log as a dictionary to standard output, which is kept for `--json`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, str] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)  # type: ignore[no-untyped-call]
        if self.training_bar is not None:
            self.training_bar.set_description(stage_name(Path(str(args.output_dir))))

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
                name.startswith("eval_")
                and not name.startswith("eval_loss_")  # single terms are too many for a line
                and not name.endswith(("runtime", "per_second"))
            ):
                self.figures[name.replace("eval_", "dev ").replace("learning_rate", "lr")] = f"{value:.4g}"
        self.training_bar.set_postfix(self.figures)
