"""Patient KD's published losses and models on one batch; `peers.py` starts this in their environment.

    python patient.py SOURCE JOB.json

SOURCE is the authors' repository. Its training script stops with "please uncomment one of option above", so
its models and loss functions are called directly, as the script calls them.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

SHIMS: list[str] = ["models and losses are called directly: the script needs a line to be uncommented first"]


def main() -> None:
    source, job = sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8"))
    sys.path.insert(0, source)
    torch.set_num_threads(job["threads"])
    logging.disable(logging.INFO)
    if job["exact"]:
        SHIMS.append("Tensor.half does nothing: patience_loss rounds its result to half precision")
        torch.Tensor.half = lambda self: self
    print(json.dumps({**parity(job), "shims": SHIMS, "torch": torch.__version__}))


def parity(job: dict[str, Any]) -> dict[str, Any]:
    """The terms and their gradients by the student's logits and first-token states."""
    from BERT.pytorch_pretrained_bert.modeling import BertConfig
    from src.KD_loss import distillation_loss, patience_loss
    from src.modeling import BertForSequenceClassificationEncoder, FCClassifierForSequenceClassification

    batch = np.load(job["batch"])
    inputs = [torch.from_numpy(batch[name]) for name in ("ids", "segments", "mask")]
    sides = {}
    for side in ("student", "teacher"):
        config = BertConfig(job[side]["config"])
        weights = torch.load(job[side]["weights"])
        encoder = BertForSequenceClassificationEncoder(config, output_all_encoded_layers=True).eval()
        head = FCClassifierForSequenceClassification(config, 2, config.hidden_size).eval()
        missing = encoder.load_state_dict(weights, strict=False).missing_keys
        head.load_state_dict(
            {name: value for name, value in weights.items() if name.startswith("classifier")}, strict=False
        )
        assert not missing, missing
        with torch.no_grad():
            states, pooled = encoder(*inputs)
            sides[side] = states, head(pooled)
    states, logits = sides["student"]
    taught, told = sides["teacher"]
    own = torch.stack(states[: len(job["layers"])], dim=1).requires_grad_()
    theirs = torch.stack([taught[layer - 1] for layer in job["layers"]], dim=1)
    logits.requires_grad_()
    labels = torch.from_numpy(batch["labels"])
    found: dict[str, Any] = {}
    arrays = {}
    for temperature in job["temperatures"]:
        total, soft, hard = distillation_loss(logits, labels, told, T=temperature, alpha=0.5)
        (arrays[f"soft.{temperature}"],) = torch.autograd.grad(soft, logits, retain_graph=True)
        (arrays[f"labels.{temperature}"],) = torch.autograd.grad(hard, logits, retain_graph=True)
        (arrays[f"total.{temperature}"],) = torch.autograd.grad(total, logits)
        found |= {f"soft.{temperature}": soft.item(), f"labels.{temperature}": hard.item()}
        found[f"total.{temperature}"] = total.item()
    for normalized in (False, True):
        loss = patience_loss(theirs, own, normalized)
        (arrays[f"patient.{normalized}"],) = torch.autograd.grad(loss, own)
        found[f"patient.{normalized}"] = loss.item()
    arrays |= {"student_logits": logits.detach(), "teacher_logits": told}
    arrays |= {"student_states": own.detach(), "teacher_states": theirs}
    np.savez(job["output"], **{name: value.numpy() for name, value in arrays.items()})
    return {"terms": found}


if __name__ == "__main__":
    main()
