"""Every family: capture changes nothing, reads what the model multiplies, and keeps the padding mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from understudy.capture.query_key import capture, prepare_capture
from understudy.capture.representations import QueryKey
from understudy.errors import ModelError
from understudy.objectives.tinybert import attention_loss

# B batch, N heads, L tokens

COMMON: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
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
    "distilbert": {"dim": 24, "n_layers": 3, "n_heads": 3, "hidden_dim": 32},
    "modernbert": {
        "global_attn_every_n_layers": 2,
        "local_attention": 4,
        "cls_token_id": 2,
        "sep_token_id": 3,
    },
    "mobilebert": {
        "embedding_size": 16,
        "intra_bottleneck_size": 12,
        "true_hidden_size": 12,
        "trigram_input": False,  # with it the embeddings of neighbours mix, padding's too
    },
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "mpnet": {},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8,
        "share_att_key": True,
    },
}
# The scores of these have more terms than queries and keys; their reference is built apart.
OWN_TERMS = ("mpnet", "deberta-v2")


def make(family: str, attention: str | None = None) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**COMMON, **FAMILIES[family]})
    options = {"attn_implementation": attention} if attention else {}
    return AutoModelForSequenceClassification.from_config(config, **options).eval()


def inputs(padding: int = 3) -> dict[str, Tensor]:
    ids = torch.randint(4, 50, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 9 - padding :] = 0
    return {"input_ids": torch.where(mask > 0, ids, 1), "attention_mask": mask}


def scores(layer: QueryKey) -> Tensor:
    def split(whole: Tensor) -> Tensor:
        return whole.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)

    return split(layer.query_BLW) @ split(layer.key_BLW).transpose(-1, -2) * layer.scaling


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_are_unchanged_by_capture(family: str, attention: str) -> None:
    model = make(family, attention if family not in OWN_TERMS else None)
    with torch.no_grad():
        before = model(**inputs(), output_hidden_states=True)
        prepare_capture(model)
        prepare_capture(model)  # twice is as once
        after = capture(model, inputs(), [1, 3])
    assert torch.equal(before.logits, after.logits["logits"])
    assert torch.equal(before.hidden_states[0], after.embeddings_BLH)
    assert torch.equal(before.hidden_states[1], after.hidden[0])
    assert torch.equal(before.hidden_states[3], after.hidden[1])


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in OWN_TERMS])
def test_scores_give_the_models_own_attention(family: str) -> None:
    """Scores, masked and softmaxed, are the probabilities that an eager model returns."""
    model = make(family, "eager")
    with torch.no_grad():
        probabilities = model(**inputs(), output_attentions=True).attentions
        prepare_capture(model)
        found = capture(model, inputs(), [1, 2, 3]).query_key
    real = inputs()["attention_mask"][:, None, None, :] > 0
    for layer, expected in zip(found, probabilities, strict=True):
        ours = scores(layer).masked_fill(~real, -torch.inf)
        # ModernBERT's local layers see a window only: where the model looks at all, the ratios agree.
        ours = ours.masked_fill(expected == 0, -torch.inf).softmax(dim=-1)
        # A padded query in a local layer may see no real key at all: what it gets is nobody's concern.
        queries = real.transpose(-1, -2)
        ours, expected = (torch.where(queries, side, 0) for side in (ours, expected))
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def assert_content_alone_decides(model: PreTrainedModel) -> None:
    prepare_capture(model)
    with torch.no_grad():
        probabilities = model(**inputs(0), output_attentions=True).attentions
        found = capture(model, inputs(0), [1, 2, 3]).query_key
    for layer, expected in zip(found, probabilities, strict=True):
        torch.testing.assert_close(scores(layer).softmax(dim=-1), expected, rtol=1e-4, atol=1e-6)


def test_mpnet_reads_content_scores() -> None:
    """With its position bias at zero MPNet's scores are those of its queries and keys alone."""
    model = make("mpnet")
    model.mpnet.encoder.relative_attention_bias.weight.data.zero_()
    assert_content_alone_decides(model)


def test_deberta_reads_content_scores() -> None:
    """With its position embeddings at zero, and so their projections constant, content decides."""
    torch.manual_seed(0)
    options = {**COMMON, **FAMILIES["deberta-v2"], "relative_attention": False, "position_biased_input": True}
    config = AutoConfig.for_model("deberta-v2", **options)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    assert_content_alone_decides(model)


def test_deberta_takes_the_content_and_not_the_positions() -> None:
    """Sharing its projections, DeBERTa sends its position embeddings through them after the content."""
    model = make("deberta-v2")
    prepare_capture(model)
    with torch.no_grad():
        layer = capture(model, inputs(), [1]).query_key[0]
        content = model.deberta.embeddings(inputs()["input_ids"], mask=inputs()["attention_mask"])
        expected = model.deberta.encoder.layer[0].attention.self.query_proj(content)
    torch.testing.assert_close(layer.query_BLW, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_padding_mask_is_honoured(family: str) -> None:
    """What stands at padding has no say, with capture as without."""
    model = make(family)
    prepare_capture(model)
    first, second = inputs(), inputs()
    second["input_ids"] = torch.where(second["attention_mask"] > 0, second["input_ids"], 7)
    with torch.no_grad():
        one, other = (capture(model, batch, [3]).logits["logits"] for batch in (first, second))
        alone = {name: value[1:, :6] for name, value in first.items()}
        short = capture(model, alone, [3]).logits["logits"]
    if family not in ("roberta", "xlm-roberta", "mpnet"):  # these count positions by the padding id
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one[1:], short, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_eq_7_runs_on_what_is_captured_and_reaches_the_student(family: str) -> None:
    student, teacher = make(family), make("bert")
    for model in (student, teacher):
        prepare_capture(model)
    mask = inputs()["attention_mask"]
    learned = capture(student, inputs(), [2])
    with torch.no_grad():
        taught = capture(teacher, inputs(), [3])
    heads = 3 if learned.query_key[0].num_heads == 3 else 1
    attention_loss(learned.query_key[0], taught.query_key[0], mask, num_heads=heads).mean().backward()
    assert any(
        parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in student.parameters()
    )
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_eq_7_equals_one_from_output_attentions() -> None:
    """Log probabilities are scores up to a constant per row: centred rows must agree to 1e-5."""
    model = make("bert", "eager")
    prepare_capture(model)
    with torch.no_grad():
        probabilities = model(**inputs(0), output_attentions=True).attentions[1]
        ours = scores(capture(model, inputs(0), [2]).query_key[0])
    expected = probabilities.log()
    torch.testing.assert_close(
        ours - ours.mean(-1, keepdim=True), expected - expected.mean(-1, keepdim=True), rtol=0, atol=1e-5
    )


def test_a_captured_student_is_saved_as_an_ordinary_model(tmp_path: Any) -> None:
    model = make("bert")
    prepare_capture(model)
    model.save_pretrained(tmp_path)
    assert "understudy" not in (tmp_path / "config.json").read_text()


def test_layers_that_are_not_there_are_named() -> None:
    model = make("bert")
    prepare_capture(model)
    with pytest.raises(ModelError, match=r"BertForSequenceClassification passed 3 layers, and layers \[4\]"):
        capture(model, inputs(), [4])


def test_an_unprepared_model_is_told_so() -> None:
    with pytest.raises(ModelError, match="prepare_capture"):
        capture(make("bert"), inputs(), [1])


def test_a_family_that_neither_way_fits_is_refused_by_name() -> None:
    config = transformers.FNetConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1, intermediate_size=32)
    model = transformers.FNetForSequenceClassification(config)
    with pytest.raises(
        ModelError, match=r"FNetForSequenceClassification \(fnet\) cannot be read.*known: mpnet"
    ):
        prepare_capture(model)
