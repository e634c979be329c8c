"""TextBrewer's GeneralDistiller with TinyBERT's matches; `peers.py` starts this in its environment.

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
    moments = distill(job)
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


def distill(job: dict[str, Any]) -> list[float]:
    """Train by matches of layers; the CPU time of each update."""
    import textbrewer
    from transformers import AutoModelForSequenceClassification

    teacher, student = (
        AutoModelForSequenceClassification.from_pretrained(
            job[side], attn_implementation="eager", dtype=torch.float32
        )
        for side in ("teacher", "student")
    )
    teacher.eval()
    every = teacher.config.num_hidden_layers // student.config.num_hidden_layers
    widths = student.config.hidden_size, teacher.config.hidden_size
    matches = []
    for layer in range(student.config.num_hidden_layers + 1):
        matches.append(
            {
                "layer_T": layer * every,
                "layer_S": layer,
                "feature": "hidden",
                "loss": "hidden_mse",
                "weight": 1,
                "proj": ["linear", *widths],
            }
        )
    for layer in range(student.config.num_hidden_layers):
        matches.append(
            {
                "layer_T": (layer + 1) * every - 1,
                "layer_S": layer,
                "feature": "attention",
                "loss": "attention_mse",
                "weight": 1,
            }
        )

    def adapt(batch: Any, output: Any) -> dict[str, Any]:
        return {
            "hidden": output.hidden_states,
            "attention": output.attentions,
            "inputs_mask": batch["attention_mask"],
        }

    moments: list[float] = []

    class Optimizer(torch.optim.AdamW):
        def step(self, *arguments: Any, **options: Any) -> Any:
            moments.append(time.process_time())
            return super().step(*arguments, **options)

    arrays = np.load(job["batches"])
    rows = [
        {name: torch.from_numpy(arrays[name][place]) for name in arrays.files}
        for place in range(job["batch"] * (job["steps"] + 1))
    ]
    options = {"output_hidden_states": True, "output_attentions": True}
    training = textbrewer.TrainingConfig(device="cpu", output_dir=job["output"], ckpt_frequency=1)
    settings = textbrewer.DistillationConfig(
        kd_loss_weight=0, hard_label_weight=0, intermediate_matches=matches
    )
    distiller = textbrewer.GeneralDistiller(training, settings, teacher, student, adapt, adapt)
    with distiller:
        distiller.train(
            Optimizer(student.parameters(), lr=5e-5),
            DataLoader(rows, batch_size=job["batch"]),
            num_epochs=1,
            max_grad_norm=1.0,
            callback=None,
            **options,
        )
    return moments


if __name__ == "__main__":
    main()
