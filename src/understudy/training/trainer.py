"""transformers' Trainer with a reproducible row order and named losses."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import Sampler, SequentialSampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.utils.generic import find_labels

from understudy.capture.representations import Representations
from understudy.data.encode import Collator
from understudy.errors import TrainingError
from understudy.files import seal_folder
from understudy.models.projections import save_projections
from understudy.models.teacher import freeze
from understudy.objectives.compose import weight_of
from understudy.progress import progress
from understudy.training.arguments import DEFAULTS, MOST_LOGGING_STEPS
from understudy.training.average import WeightAverage
from understudy.training.model import (
    DistillationModel,
    autocast,
    match_models,
    model_inputs,
    read_batch,
    read_model,
)
from understudy.training.objectives import Objective, Objectives, as_objectives
from understudy.training.order import LengthGroupedSampler
from understudy.training.progress import ProgressBar, ProgressLines
from understudy.training.shared import SharedTeacher

# B batch

EVALUATED = "eval_loss_"  # prefix of a term's name in the logs


class OrderedTrainer(Trainer):
    """A Trainer whose training order depends only on (seed, epoch) and that does not reorder evaluation rows.

    Trainer's own length grouping draws from the global random state, sorts each group from long to short, and
    shuffles evaluation rows too, so that predictions are not in the order of their rows.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.compute_loss_func is None:
            # Encoders' heads accept the number of rows of a step, but return the mean over their micro-batch.
            self.model_accepts_loss_kwargs = False
        self._order: LengthGroupedSampler | None = None
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        self.add_callback(LogOften())
        if not self.args.disable_tqdm:
            self.add_callback(ProgressBar() if sys.stderr.isatty() else ProgressLines())

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler[int] | None:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        if self.args.train_sampling_strategy != "group_by_length":
            return super()._get_train_sampler(dataset)
        # The batch of all processes together, so that they finish a step at the same time.
        batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        if not isinstance(dataset, Dataset):
            raise ValueError(
                "train_dataset must be a datasets.Dataset to be grouped by length, got "
                f"{type(dataset).__name__}"
            )
        if "length" in dataset.column_names:
            lengths = dataset["length"][:]
        else:
            lengths = [len(ids) for ids in dataset["input_ids"]]
        self._order = LengthGroupedSampler(lengths, batch_size, seed)
        return self._order

    def _run_epoch(self, *arguments: Any, **options: Any) -> None:
        """Train for an epoch, unless a run is resumed from its last step: Trainer would take one more."""
        if self._order is not None:  # Accelerate does not find it in the loader of a resumed distributed run
            self._order.set_epoch(options["epoch"])
        checkpoint = options["resume_from_checkpoint"]
        if checkpoint is not None and options["epoch"] == options["epochs_trained"]:
            file = _unlogged_file(Path(str(checkpoint)), self.args)
            if file.is_file():  # older versions wrote none
                self.restore_unlogged(json.loads(file.read_text("utf-8")))
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*arguments, **options)  # type: ignore[no-untyped-call]

    def unlogged(self) -> dict[str, Any]:
        """Return the losses since the last log, so that a resumed run logs the same means."""
        return {"loss": self._tr_loss.item(), "last_step": self._globalstep_last_logged}

    def restore_unlogged(self, content: Mapping[str, Any]) -> None:
        """Continue from the losses of an earlier process."""
        self._tr_loss += content["loss"]
        self._globalstep_last_logged = content["last_step"]

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[int] | None:
        return SequentialSampler(eval_dataset)

    def evaluation_loop(self, *arguments: Any, **options: Any) -> Any:
        """Evaluate without changing the random state.

        A data loader draws a random number when it starts. The checkpoint of an epoch's last step is taken
        before the evaluation that follows it, so a run resumed from there would draw different dropout.
        """
        with torch.random.fork_rng(devices=[]):
            return super().evaluation_loop(*arguments, **options)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        _unlogged_file(folder, self.args).write_text(json.dumps(self.unlogged()), "utf-8")
        self.accelerator.wait_for_everyone()  # each process writes its own random state
        if not self.args.should_save:
            return
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, WeightAverage):
                callback.save(folder)
        seal_folder(folder)


def _unlogged_file(checkpoint: Path, arguments: TrainingArguments) -> Path:
    return checkpoint / f"unlogged-{arguments.process_index}.json"


class LogOften(TrainerCallback):
    """A callback that logs long runs at least every 50 steps if nothing else was asked for."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.logging_steps == DEFAULTS["logging_steps"]:
            state.logging_steps = min(state.logging_steps, MOST_LOGGING_STEPS)


class LogTheEnd(TrainerCallback):
    """A callback that also logs the last steps, even if a run is shorter than `logging_steps`."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step >= state.max_steps:
            control.should_log = True


class DistillationTrainer(OrderedTrainer):
    """A Trainer that trains a student on a teacher's representations.

    Every term of the objectives is logged by name. A loss that becomes NaN stops the run and names its rows.
    The teacher is frozen, is not part of the wrapped module, and is never saved.

    Args:
        model: the student, a transformers model.
        teacher: a transformers model with the same tokenizer; None if the rows carry its predictions in
            `teacher_…` columns.
        objectives: e.g. `TinyBertObjectives`, or a function of both models' representations that returns one
            loss per example.
        args: any TrainingArguments.
        train_dataset: tokenised rows (`input_ids`, and `labels` if the objectives or the metrics need them);
            `row` is used in messages, `length` for grouping by length.
        eval_dataset: rows for `compute_metrics`; without it, the losses on some of them are reported.
        channels: the teacher's channels that the student's were cut from, if any.
        projections: trained projections to continue from.
        shared: shares the teacher's forward passes with other students.
        options: all other arguments of Trainer.

    Examples:
        >>> trainer = DistillationTrainer(                                        # doctest: +SKIP
        ...     model=student, teacher=teacher, objectives=TinyBertObjectives(layer_map="uniform"),
        ...     args=TrainingArguments("out"), train_dataset=rows, processing_class=tokenizer,
        ... )
        >>> trainer.train()                                                       # doctest: +SKIP
    """

    loss_is_scaled_for_ga = True  # compute_loss divides by the number of rows of the whole step

    def __init__(
        self,
        model: PreTrainedModel | DistillationModel,
        teacher: PreTrainedModel | None = None,
        objectives: Objectives | Objective | None = None,
        args: TrainingArguments | None = None,
        data_collator: Callable[..., dict[str, Tensor]] | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        *,
        teacher_layers: Sequence[int] = (),
        channels: Tensor | None = None,
        projections: Mapping[str, Tensor] | None = None,
        shared: SharedTeacher | None = None,
        **options: Any,
    ) -> None:
        if isinstance(model, DistillationModel):
            matched, self.teacher_layers = model, tuple(teacher_layers)
        elif objectives is None:
            raise ValueError("objectives must be given, e.g. TinyBertObjectives()")
        else:
            matched, self.teacher_layers = match_models(
                model, teacher, as_objectives(objectives), channels=channels
            )
        if projections and matched.projections is not None:
            matched.projections.continue_from(projections)
        self.objectives = matched.objectives
        args = args or TrainingArguments("trainer_output")
        args.remove_unused_columns = False  # the collator selects columns
        if args.device.type == "cpu":
            args.dataloader_pin_memory = False  # only useful for copies to a device; without one it warns
        if data_collator is None and processing_class is not None:
            data_collator = Collator(processing_class, keep_row=True)
        super().__init__(
            matched,
            args,
            data_collator=data_collator,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            **options,
        )
        self.teacher = teacher
        if teacher is not None:
            freeze(teacher)
            teacher.to(args.device)  # type: ignore[arg-type]  # transformers' decorator loses the type
        # Trainer cannot find the student's labels through the wrapping module.
        self.label_names = args.label_names or find_labels(type(matched.student))  # type: ignore[no-untyped-call]
        self.add_callback(LogTheEnd())
        self._sums: dict[str, Tensor] = {}
        self._num_steps = 0
        self.shared = shared if teacher is not None else None
        if self.shared is not None:
            self.shared.add(self)
        for callback in self.callback_handler.callbacks:
            if shared is not None and isinstance(callback, ProgressBar | ProgressLines):
                callback.student = shared.current

    @property
    def student(self) -> PreTrainedModel:
        """The student itself, without projections."""
        model = self.accelerator.unwrap_model(self.model)
        assert isinstance(model, DistillationModel)
        return model.student

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """Read the micro-batches of a step, and count their rows over all processes."""
        if self.shared is not None:
            self.shared.wait(self)
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._num_steps += 1
        num_rows = torch.tensor(sum(len(batch["input_ids"]) for batch in batches), device=device)
        return batches, int(self.accelerator.reduce(num_rows, reduction="sum"))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Return the loss of a micro-batch; those of a step add up to the mean over its rows."""
        if return_outputs:  # only requested in evaluation, for the student itself
            return super().compute_loss(model, inputs, True, num_items_in_batch)
        rows = inputs.pop("row", None)
        if self.shared is not None:
            teacher = self.shared.read(self, inputs, lambda layers: self.read_teacher(inputs, layers))
        else:
            teacher = self.read_teacher(inputs)
        terms = model(inputs, teacher)
        loss_B = self.objectives.total(terms, self.state.global_step / max(self.state.max_steps, 1))
        if not torch.isfinite(loss_B).all():
            raise TrainingError(_describe_bad(terms, loss_B, rows, self.state.global_step))
        # DDP averages over processes, which may have different numbers of rows.
        num_rows = len(loss_B) if num_items_in_batch is None else num_items_in_batch / self.args.world_size
        for name, term_B in terms.items():
            part = term_B.detach().sum() / num_rows
            self._sums[name] = self._sums[name] + part if name in self._sums else part
        return loss_B.sum() / num_rows

    def read_teacher(
        self, batch: Mapping[str, Tensor], layers: Sequence[int] | None = None
    ) -> Representations:
        """Return the teacher's representations of a batch, computed or cached.

        Args:
            layers: the teacher's layers. Defaults to those that this student compares.
        """
        if self.teacher is None:
            return read_batch(batch, len(self.teacher_layers))
        with torch.no_grad(), autocast(self.args.device, autocast_dtype(self.args)):
            return read_model(
                self.teacher, batch, self.teacher_layers if layers is None else layers, self.objectives
            )

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> Any:
        """Predict with the student itself."""
        names = {*model_inputs(self.student, inputs, flat=False), *self.label_names}
        wanted = {name: value for name, value in inputs.items() if name in names}
        if self.label_names:
            return super().prediction_step(self.student, wanted, prediction_loss_only, ignore_keys)
        # Trainer would score nothing of a model that takes no labels (embeddings), and keep all outputs.
        wanted = self._prepare_inputs(wanted)
        with torch.no_grad(), self.compute_loss_context_manager():
            output = self.student(**wanted)
        logits = tuple(output[name].detach() for name in output if name.endswith("logits"))
        return None, logits[0] if len(logits) == 1 else logits, inputs.get("labels")

    def evaluate(self, eval_dataset: Any = None, *arguments: Any, **options: Any) -> dict[str, float]:
        """Score the student with `compute_metrics`; without it, report the losses on some rows."""
        if self.compute_metrics is not None:
            return super().evaluate(eval_dataset, *arguments, **options)
        assert self.model is not None
        terms = self.mean_losses(self.model, self.eval_dataset if eval_dataset is None else eval_dataset)
        losses = {f"{EVALUATED}{name}": value for name, value in terms.items()}
        weights = self.objectives.weights
        losses["eval_loss"] = sum(weight_of(name, weights) * value for name, value in terms.items())
        self.log(losses)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, losses)
        return losses

    def mean_losses(self, model: nn.Module, rows: Any) -> dict[str, float]:
        """Return the mean of each term over up to 1,000 evenly spaced rows; every process computes all."""
        chosen = range(0, len(rows), math.ceil(len(rows) / _EVALUATED_ROWS) or 1)
        device = self.args.device
        model.to(device).eval()
        sums: dict[str, float] = {}
        with torch.no_grad(), progress("Held-out losses", len(chosen), "rows") as advance:
            for start in range(0, len(chosen), _EVALUATED_BATCH):
                places = chosen[start : start + _EVALUATED_BATCH]
                batch = self.data_collator([rows[place] for place in places])
                batch = {name: value.to(device) for name, value in batch.items() if name != "row"}
                for name, loss_B in model(batch, self.read_teacher(batch)).items():
                    sums[name] = sums.get(name, 0.0) + loss_B.double().sum().item()
                advance(len(places))
        return {name: total / len(chosen) for name, total in sums.items()}

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the student as an ordinary model, together with its projections."""
        if _internal_call:  # a checkpoint to resume from
            super().save_model(output_dir, _internal_call)
        elif self.args.should_save:
            folder = Path(str(output_dir or self.args.output_dir))
            self.student.save_pretrained(folder)
            if self.processing_class is not None:
                self.processing_class.save_pretrained(folder)
            model = self.accelerator.unwrap_model(self.model)
            save_projections(model.projections, folder)

    def unlogged(self) -> dict[str, Any]:
        sums = {name: value.item() for name, value in self._sums.items()}
        return {**super().unlogged(), "sums": sums, "steps": self._num_steps}

    def restore_unlogged(self, content: Mapping[str, Any]) -> None:
        super().restore_unlogged(content)
        self._sums = {name: self._tr_loss.new_tensor(value) for name, value in content["sums"].items()}
        self._num_steps = content["steps"]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log Trainer's figures, and each term's mean over the steps since the last log."""
        if "loss" in logs and self._sums:
            means = torch.stack(list(self._sums.values())) / self._num_steps
            means = self.accelerator.reduce(means, reduction="mean")
            logs |= {f"loss_{name}": mean for name, mean in zip(self._sums, means.tolist(), strict=True)}
            self._sums, self._num_steps = {}, 0
        super().log(logs, start_time)


_EVALUATED_ROWS, _EVALUATED_BATCH = 1_000, 32


def autocast_dtype(arguments: TrainingArguments) -> torch.dtype:
    """Return the precision of forward passes under these arguments."""
    if arguments.bf16:
        return torch.bfloat16
    return torch.float16 if arguments.fp16 else torch.float32


def _describe_bad(terms: Mapping[str, Tensor], loss_B: Tensor, rows: Tensor | None, step: int) -> str:
    bad_B = ~torch.isfinite(loss_B)
    names = [name for name, term_B in terms.items() if not torch.isfinite(term_B).all()]
    numbers = rows[bad_B].tolist() if rows is not None else torch.nonzero(bad_B).flatten().tolist()
    where = "row numbers in their file, from 0" if rows is not None else "places in the batch, from 0"
    shown = ", ".join(str(number) for number in numbers[:10])
    return (
        f"the loss became NaN or infinite after {step} steps, on {int(bad_B.sum())} of {len(loss_B)} rows "
        f"({where}: {shown}); terms: {', '.join(names)}. If it is all rows of the batch, the learning rate "
        "is likely too high: lower it in the stage's training block. If it is a few, look at them. The last "
        "checkpoint is from before."
    )
