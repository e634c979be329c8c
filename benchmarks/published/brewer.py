"""TextBrewer's GeneralDistiller with TinyBERT's matches; other scripts start this in its environment.

    python brewer.py JOB.json

transformers gives attention probabilities and not scores, so these are what its attention matches compare.
"""

from __future__ import annotations

import importlib.metadata
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

SHIMS: list[str] = []


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    torch.set_num_threads(job["threads"])
    if job.get("bf16_products"):
        SHIMS.append("matrix products in bf16 (torch.set_float32_matmul_precision), since ours are")
        torch.set_float32_matmul_precision("medium")
    moments: list[float] = []
    student = None
    for stage in job["stages"]:
        student = distill(job, stage, student, moments)
    if "save" in job:
        assert student is not None
        student.save_pretrained(job["save"])
    print(
        json.dumps(
            {
                "seconds": np.diff(moments).tolist(),
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1),
                "shims": SHIMS,
                "textbrewer": importlib.metadata.version("textbrewer"),
                "transformers": importlib.metadata.version("transformers"),
            }
        )
    )


def distill(job: dict[str, Any], stage: dict[str, Any], student: Any, moments: list[float]) -> Any:
    """Train one stage, by matches of layers or by predictions; the student.

    Args:
        student: of the stage before, or None to load the job's.
        moments: gets the CPU time of each update.
    """
    import textbrewer
    from transformers import get_linear_schedule_with_warmup

    teacher, student = load_model(job["teacher"]).eval(), student or load_model(job["student"])
    by_layers = stage["name"] == "layers"

    def adapt(batch: Any, output: Any) -> dict[str, Any]:
        return {
            "logits": output.logits,
            "hidden": output.hidden_states,
            "attention": output.attentions,
            "inputs_mask": batch["attention_mask"],
        }

    class Optimizer(torch.optim.AdamW):
        def step(self, *arguments: Any, **options: Any) -> Any:
            moments.append(time.process_time())
            return super().step(*arguments, **options)

    rows = read_rows(job["batches"])
    torch.manual_seed(job.get("seed", 0))
    batches = DataLoader(rows, batch_size=job["batch"], shuffle="seed" in job, drop_last=True)
    steps = stage["epochs"] * len(batches)
    training = textbrewer.TrainingConfig(device="cpu", output_dir=job["output"], ckpt_frequency=1)
    settings = textbrewer.DistillationConfig(
        temperature=1,
        kd_loss_weight=0 if by_layers else 1,
        hard_label_weight=0,
        intermediate_matches=matches_of(student.config, teacher.config) if by_layers else None,
    )
    distiller = textbrewer.GeneralDistiller(training, settings, teacher, student, adapt, adapt)
    with distiller:
        distiller.train(
            Optimizer(student.parameters(), lr=stage["rate"]),
            batches,
            num_epochs=stage["epochs"],
            scheduler_class=None if by_layers else get_linear_schedule_with_warmup,
            scheduler_args=None
            if by_layers
            else {"num_warmup_steps": steps // 10, "num_training_steps": steps},
            max_grad_norm=1.0,
            callback=None,
            output_hidden_states=by_layers,
            output_attentions=by_layers,
        )
    return student


def matches_of(student: Any, teacher: Any) -> list[dict[str, Any]]:
    """TinyBERT's pairs of layers: embeddings and hidden states with a projection, attention."""
    every = teacher.num_hidden_layers // student.num_hidden_layers
    matches = []
    for layer in range(student.num_hidden_layers + 1):
        matches.append(
            {
                "layer_T": layer * every,
                "layer_S": layer,
                "feature": "hidden",
                "loss": "hidden_mse",
                "weight": 1,
                "proj": ["linear", student.hidden_size, teacher.hidden_size],
            }
        )
    for layer in range(student.num_hidden_layers):
        matches.append(
            {
                "layer_T": (layer + 1) * every - 1,
                "layer_S": layer,
                "feature": "attention",
                "loss": "attention_mse",
                "weight": 1,
            }
        )
    return matches


def load_model(folder: str) -> Any:
    """A classifier in fp32, with attention that can be seen."""
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    )


def read_rows(file: str) -> list[dict[str, torch.Tensor]]:
    """Padded rows, as `published.models.save_rows` writes them."""
    arrays = np.load(file)
    tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return [
        {name: values[place] for name, values in tensors.items()} for place in range(len(arrays["input_ids"]))
    ]


if __name__ == "__main__":
    main()
