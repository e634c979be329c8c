"""Every family as a teacher: a student of its own shape learns from it, and padding has no say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification

from understudy.distillation.layers import match
from understudy.models.settings import StudentSettings
from understudy.models.student import student_config
from understudy.models.teacher import cast_linears, freeze
from understudy.recipe.distillation import IntermediateSettings
from understudy.training.model import read_model

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
    "pad_token_id": 1,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {},
    "electra": {"embedding_size": 16},
    "distilbert": {"dim": 24, "n_layers": 4, "n_heads": 2, "hidden_dim": 32},
    "modernbert": {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
    "mobilebert": {
        "embedding_size": 16,
        "intra_bottleneck_size": 12,
        "true_hidden_size": 12,
        "trigram_input": False,  # with it the embeddings of neighbours mix, padding's too
        "initializer_range": 0.02,  # without LayerNorm more would explode
    },
    "albert": {"embedding_size": 16},
    "mpnet": {},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
}


def batch(width: int) -> dict[str, Tensor]:
    ids = torch.randint(4, 50, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    filled = {"input_ids": torch.where(mask > 0, ids, 1), "attention_mask": mask}
    fill = {"input_ids": 1, "attention_mask": 0}
    return {
        name: torch.nn.functional.pad(value, (0, width - 7), value=fill[name])
        for name, value in filled.items()
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_student_learns_from_every_family(family: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **FAMILIES[family]})
    teacher = AutoModelForSequenceClassification.from_config(config)
    freeze(teacher)
    settings = StudentSettings(
        num_hidden_layers=2,
        hidden_size=16,
        intermediate_size=24,
        family="bert" if family == "mobilebert" else None,
    )
    student = AutoModelForSequenceClassification.from_config(student_config(settings, config)).eval()
    model, layers = match(student, teacher, IntermediateSettings())
    assert layers == (2, 4)

    def loss(width: int) -> Tensor:
        with torch.no_grad():
            shown = read_model(teacher, batch(width), layers, model.objectives)
        return model.objectives.total(model(batch(width), shown))

    assert torch.allclose(loss(7), loss(12), rtol=1e-5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first = loss(7).mean().item()
    for _ in range(15):
        optimizer.zero_grad()
        loss(7).mean().backward()
        optimizer.step()
    assert loss(7).mean().item() < 0.9 * first
    assert all(parameter.grad is None for parameter in teacher.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_rounded_once_are_those_that_autocast_rounds(family: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **FAMILIES[family]})
    teacher = AutoModelForSequenceClassification.from_config(config)
    freeze(teacher)
    shown = []
    for _ in range(2):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            shown.append(teacher.base_model(**batch(7), output_hidden_states=True).hidden_states)
        cast_linears(teacher, torch.bfloat16)
    assert all(torch.equal(one, other) for one, other in zip(*shown, strict=True))
