"""torchdistill's DistillationBox with TinyBERT's matches; `same_work.py` starts this in its environment.

    python distillbox.py JOB.json

torchdistill has neither a loss over many layers with projections nor one of attention, so the wrapper and the
loss below are what its user writes. transformers gives attention probabilities, so these are compared.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

SHIMS: list[str] = ["two operators of torchvision are declared, whose build for this torch needs CUDA"]
# torchdistill imports torchvision, which does not load beside a torch without CUDA.
LIBRARY = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float threshold) -> Tensor")


def main() -> None:
    import torchdistill
    import transformers

    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    torch.set_num_threads(job["threads"])
    SHIMS.append("matrix products in bf16 (torch.set_float32_matmul_precision), since ours are")
    torch.set_float32_matmul_precision("medium")
    moments: list[float] = []
    student = None
    for stage in job["stages"]:
        student = distill(job, stage, student, moments)
    student.save_pretrained(job["save"])
    print(
        json.dumps(
            {
                "steps": len(moments),
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1),
                "shims": SHIMS,
                "torchdistill": torchdistill.__version__,
                "transformers": transformers.__version__,
            }
        )
    )


class Shown(nn.Module):
    """A model that also returns what TinyBERT's losses compare, projected where a width is given."""

    def __init__(self, model: Any, width: int | None = None) -> None:
        super().__init__()
        self.model = model
        size, states = model.config.hidden_size, model.config.num_hidden_layers + 1
        self.fits = nn.ModuleList(nn.Linear(size, width) for _ in range(states)) if width else None

    def forward(self, **batch: Any) -> dict[str, Any]:
        output = self.model(**batch, output_hidden_states=True, output_attentions=True)
        hidden = output.hidden_states
        if self.fits is not None:
            hidden = [fit(state) for fit, state in zip(self.fits, hidden, strict=True)]
        return {"logits": output.logits, "hidden": hidden, "attention": output.attentions}


def layer_loss(student: dict[str, Any], teacher: dict[str, Any]) -> torch.Tensor:
    every = len(teacher["attention"]) // len(student["attention"])
    pairs = [
        *zip(student["hidden"], teacher["hidden"][::every], strict=True),
        *zip(student["attention"], teacher["attention"][every - 1 :: every], strict=True),
    ]
    return torch.stack([nn.functional.mse_loss(own, told) for own, told in pairs]).sum()


def prediction_loss(student: dict[str, Any], teacher: dict[str, Any]) -> torch.Tensor:
    return nn.functional.cross_entropy(student["logits"], teacher["logits"].softmax(dim=-1))


def distill(job: dict[str, Any], stage: dict[str, Any], student: Any, moments: list[float]) -> Any:
    """Train one stage; the student.

    Args:
        student: of the stage before, or None to load the job's.
        moments: gets the CPU time of each update.
    """
    from brewer import load_model, read_rows
    from torch.utils.data import RandomSampler
    from torchdistill.core.distillation import get_distillation_box
    from torchdistill.losses.registry import register_high_level_loss

    teacher, student = load_model(job["teacher"]).eval(), student or load_model(job["student"])
    by_layers = stage["name"] == "layers"
    compare = layer_loss if by_layers else prediction_loss

    @register_high_level_loss(key=stage["name"])
    class Loss(nn.Module):
        def __init__(self, **_: Any) -> None:
            super().__init__()

        def forward(self, shown: Any, *_: Any) -> torch.Tensor:
            return compare(shown["student"]["."]["output"], shown["teacher"]["."]["output"])

    torch.manual_seed(job["seed"])
    rows = [(row, 0) for row in read_rows(job["batches"])]
    steps = stage["epochs"] * (len(rows) // job["batch"])
    learning: dict[str, Any] = {
        "num_epochs": stage["epochs"],
        "train_data_loader": {
            "dataset_id": "rows",
            "sampler": {"class_or_func": RandomSampler},
            "kwargs": {"batch_size": job["batch"], "drop_last": True},
        },
        "teacher": {"requires_grad": False, "forward_proc": "forward_batch_only_as_kwargs"},
        "student": {"forward_proc": "forward_batch_only_as_kwargs"},
        "criterion": {"key": stage["name"], "kwargs": {}},
        "optimizer": {"key": "AdamW", "kwargs": {"lr": stage["rate"]}, "max_grad_norm": 1.0},
    }
    if not by_layers:
        learning["scheduler"] = {
            "key": "LinearLR",
            "kwargs": {"start_factor": 1.0, "end_factor": 1e-8, "total_iters": steps},
            "scheduling_step": 1,
        }
    width = teacher.config.hidden_size if by_layers else None
    box = get_distillation_box(
        Shown(teacher), Shown(student, width), {"rows": rows}, learning, torch.device("cpu"), None, False, 1
    )
    for epoch in range(box.num_epochs):
        box.pre_epoch_process(epoch=epoch)
        for batch, targets, extra in box.train_data_loader:
            loss = box.forward_process(batch, targets, extra)
            box.post_forward_process(loss)
            moments.append(time.process_time())
        box.post_epoch_process()
    return student


if __name__ == "__main__":
    main()
