"""TinyBERT's published scripts, run as they are and watched; `peers.py` starts this in their environment.

    python tinybert.py SOURCE JOB.json

SOURCE is the folder TinyBERT of the authors' repository. The shims, without which the scripts do not run on
today's versions or not with these models, are printed with the result.
"""

from __future__ import annotations

import csv
import inspect
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import SequentialSampler

SHIMS: list[str] = []


def main() -> None:
    source, job = sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8"))
    sys.path.insert(0, source)
    torch.set_num_threads(job["threads"])
    logging.disable(logging.INFO)
    if not hasattr(np, "Inf"):
        SHIMS.append("np.Inf, which NumPy 2 no longer has")
        np.Inf = np.inf
    if job.get("bf16_products"):
        SHIMS.append("matrix products in bf16 (torch.set_float32_matmul_precision), since ours are")
        torch.set_float32_matmul_precision("medium")
    result = {"augment": augment, "parity": parity, "step": step, "train": train}[job["what"]](job)
    print(json.dumps({**result, "shims": SHIMS, "torch": torch.__version__, "numpy": np.__version__}))


class FinishedError(Exception):
    """Enough steps were made."""


def watch(job: dict[str, Any], after_step: Any) -> dict[str, Any]:
    """Run task_distill.py's main with a job's arguments, and call `after_step` before each update."""
    import task_distill

    seen: dict[str, Any] = {"terms": [], "losses": [], "model": None}
    mend_reading(task_distill)
    model = task_distill.TinyBertForSequenceClassification
    if job["fit_size"] != 768:
        SHIMS.append("fit_size, the teacher's width, which is always 768")
        initialise = model.__init__
        model.__init__ = lambda self, config, num_labels, fit_size=job["fit_size"]: initialise(
            self, config, num_labels, fit_size
        )
    if job.get("no_relu"):
        SHIMS.append("no ReLU between pooler and classifier, so that the head is that of transformers' BERT")
        inspect.getmodule(model).torch = WithoutRelu()
    if job.get("in_order"):
        SHIMS.append("rows in the order of the file instead of a random one")
        task_distill.RandomSampler = SequentialSampler

    class Loss(task_distill.MSELoss):
        def forward(self, *arguments: Any) -> Any:
            loss = super().forward(*arguments)
            seen["terms"].append(loss)
            return loss

    class Optimizer(task_distill.BertAdam):
        def step(self, *arguments: Any, **options: Any) -> Any:
            after_step(seen)
            seen["terms"] = []
            return super().step(*arguments, **options)

    if job["what"] == "parity":
        task_distill.MSELoss = Loss
    task_distill.BertAdam = Optimizer
    backward, tensors, load = torch.Tensor.backward, task_distill.get_tensor_data, model.from_pretrained

    def keep_loss(loss: torch.Tensor, *arguments: Any, **options: Any) -> None:
        seen["losses"].append(loss.detach().clone())
        backward(loss, *arguments, **options)

    def keep_rows(*arguments: Any) -> Any:
        found = tensors(*arguments)
        seen.setdefault("rows", found[0].tensors)
        return found

    def keep_model(*arguments: Any, **options: Any) -> Any:
        seen["model"] = load(*arguments, **options)  # the student is loaded last
        return seen["model"]

    torch.Tensor.backward = keep_loss
    task_distill.get_tensor_data, model.from_pretrained = keep_rows, keep_model
    sys.argv = ["task_distill.py", *job["arguments"]]
    seen["started"] = time.process_time()
    try:
        task_distill.main()
    except FinishedError:
        pass
    finally:
        torch.Tensor.backward = backward
    return seen


def parity(job: dict[str, Any]) -> dict[str, Any]:
    """Every loss of the first batch, the batch itself, and the gradient of every weight."""

    def stop(_: dict[str, Any]) -> None:
        raise FinishedError

    seen = watch(job, stop)
    arrays = {f"gradient.{name}": weight.grad for name, weight in seen["model"].named_parameters()}
    arrays |= {"ids": seen["rows"][0][:32], "mask": seen["rows"][1][:32], "segments": seen["rows"][2][:32]}
    np.savez(job["output"], **{name: value.numpy() for name, value in arrays.items() if value is not None})
    return {"terms": [term.item() for term in seen["terms"]], "loss": seen["losses"][0].item()}


def step(job: dict[str, Any]) -> dict[str, Any]:
    """CPU seconds of each step."""
    moments: list[float] = []

    def note(_: dict[str, Any]) -> None:
        moments.append(time.process_time())
        if len(moments) > job["steps"]:
            raise FinishedError

    watch(job, note)
    return {"seconds": np.diff(moments).tolist(), "peak_mb": peak_mb()}


def train(job: dict[str, Any]) -> dict[str, Any]:
    """A stage to its end; the weights of its last step."""
    moments: list[float] = []
    seen = watch(job, lambda _: moments.append(time.process_time()))
    weights = {name: value for name, value in seen["model"].state_dict().items() if "fit_dense" not in name}
    torch.save(weights, job["output"])
    return {"steps": len(moments), "peak_mb": peak_mb()}


def augment(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds for the rows of a file, the candidates of each word, and the rows written."""
    import data_augmentation

    candidates: list[dict[str, Any]] = []
    ask = data_augmentation.DataAugmentor._word_augment

    def keep(self: Any, sentence: str, place: int, word: str) -> Any:
        found = ask(self, sentence, place, word)
        candidates.append({"text": sentence, "place": place, "word": word, "candidates": list(found)})
        return found

    data_augmentation.DataAugmentor._word_augment = keep
    moments = {}
    write = data_augmentation.AugmentProcessor.read_augment_write

    def timed(self: Any) -> None:
        before = time.process_time()
        write(self)
        moments["seconds"] = time.process_time() - before

    data_augmentation.AugmentProcessor.read_augment_write = timed
    mend_reading(data_augmentation)
    sys.argv = ["data_augmentation.py", *job["arguments"]]
    data_augmentation.main()
    Path(job["output"]).write_text(json.dumps(candidates), "utf-8")
    return {**moments, "words": len(candidates), "peak_mb": peak_mb()}


def mend_reading(module: Any) -> None:
    """Turn quoting off, as quotechar=None was meant, where this Python refuses the latter."""
    reader = csv.reader
    try:
        reader([], quotechar=None)
    except TypeError:
        SHIMS.append("csv.QUOTE_NONE, since today's Python refuses quotechar=None without it")

        class Csv:
            writer = csv.writer

            @staticmethod
            def reader(lines: Any, delimiter: str, quotechar: Any) -> Any:
                return reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)

        module.csv = Csv


class WithoutRelu:
    """torch, but its relu returns what it is given."""

    def __getattr__(self, name: str) -> Any:
        return (lambda value: value) if name == "relu" else getattr(torch, name)


def peak_mb() -> float:
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1)


if __name__ == "__main__":
    main()
