from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

from understudy.models.flop import forward_flop


@pytest.mark.parametrize("length", [16, 128])
@pytest.mark.parametrize(
    ("model", "config"),
    [
        (
            BertModel,
            BertConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96),
        ),
        (DistilBertModel, DistilBertConfig(dim=48, n_layers=3, n_heads=4, hidden_dim=96)),
    ],
)
def test_the_sum_on_paper_is_what_torch_counts(model: type, config: object, length: int) -> None:
    config._attn_implementation = "eager"  # type: ignore[attr-defined]
    options = {"add_pooling_layer": False} if model is BertModel else {}
    built = model(config, **options).eval()
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        built(input_ids=torch.ones(2, length, dtype=torch.long))
    assert counter.get_total_flops() == 2 * length * forward_flop(config, length)
    assert forward_flop(config, length, num_layers=1) == forward_flop(config, length) / 3
