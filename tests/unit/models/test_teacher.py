from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, BertConfig, BertForSequenceClassification, ModernBertConfig, RobertaConfig

from understudy.errors import ModelError
from understudy.kinds.tasks import get_task
from understudy.models.teacher import keep_layers, load_teacher


def test_a_teacher_is_frozen_and_without_dropout(encoder: Path, tmp_path: Path) -> None:
    config = BertConfig.from_pretrained(encoder, hidden_dropout_prob=0.5)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    teacher = load_teacher(str(tmp_path), get_task("mrpc"), ("0", "1"))
    assert not teacher.training
    assert not any(module.training for module in teacher.modules())
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def test_an_encoder_is_no_teacher(encoder: Path) -> None:
    with pytest.raises(ModelError, match=r"has no head for classification.*Fine-tune it first"):
        load_teacher(str(encoder), get_task("mrpc"), ("no", "yes"))


@pytest.mark.parametrize("family", [BertConfig, RobertaConfig, ModernBertConfig])
def test_layers_that_nobody_learns_from_are_not_run(family: type) -> None:
    config = family(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    )
    model = AutoModel.from_config(config).eval()
    tokens = torch.tensor([[1, 7, 9, 2]])
    before = model(input_ids=tokens, output_hidden_states=True).hidden_states
    keep_layers(model, 3)
    after = model(input_ids=tokens, output_hidden_states=True).hidden_states
    assert len(after) == 5  # the embeddings, three layers, and one for a norm that may follow
    for layer in range(4):
        assert torch.equal(before[layer], after[layer])
