from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MobileBertConfig,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from understudy.errors import ModelError, RecipeError
from understudy.kinds.tasks import get_task
from understudy.models.settings import SHAPES, StudentSettings, parse_student
from understudy.models.student import load_student, student_config

FAMILIES = [
    BertConfig,
    RobertaConfig,
    XLMRobertaConfig,
    ElectraConfig,
    DistilBertConfig,
    ModernBertConfig,
    AlbertConfig,
    MPNetConfig,
    DebertaV2Config,
]


def no_text() -> tuple[()]:
    return ()


@pytest.mark.parametrize(
    ("shape", "millions"),
    [  # TinyBERT's Table 1: 14.5M and 67.0M
        ("tinybert-4l-312d", 14.35),
        ("tinybert-6l-768d", 66.96),
        ("tinybert-4l-768d", 52.78),
        ("tinybert-6l-312d", 16.63),
    ],
)
def test_named_shapes_have_the_papers_sizes(shape: str, millions: float) -> None:
    config = student_config(StudentSettings(shape=shape), BertConfig())
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    assert model.num_parameters() / 1e6 == pytest.approx(millions, abs=0.01)
    assert config.num_attention_heads == 12


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)
def test_every_family_gets_a_small_student_that_runs(family: type) -> None:
    teacher = family(
        vocab_size=50, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2
    )
    settings = StudentSettings(
        num_hidden_layers=3, hidden_size=24, intermediate_size=40, num_attention_heads=2
    )
    config = student_config(settings, teacher)
    model = AutoModel.from_config(config).eval()
    seen = model(input_ids=torch.tensor([[1, 7, 9, 2]]), output_hidden_states=True).hidden_states
    assert len(seen) == 4
    assert seen[-1].shape == (1, 4, 24)
    assert config.vocab_size == 50
    assert type(config) is type(teacher)


def test_a_family_with_bound_sizes_is_refused_and_bert_serves() -> None:
    with pytest.raises(ModelError, match=r"family mobilebert.*student\.family=bert"):
        student_config(StudentSettings(shape="tinybert-4l-312d"), MobileBertConfig())
    config = student_config(
        StudentSettings(shape="tinybert-4l-312d", family="bert"), MobileBertConfig(vocab_size=77)
    )
    assert isinstance(config, BertConfig)
    assert (config.vocab_size, config.hidden_size) == (77, 312)


def test_a_cut_is_nowhere_wider_than_its_source() -> None:
    teacher = BertConfig(hidden_size=32, intermediate_size=64, num_attention_heads=2)
    assert student_config(StudentSettings(shape="1l-32d", init="cut"), teacher).intermediate_size == 64
    assert student_config(StudentSettings(shape="1l-12d", init="cut"), teacher).intermediate_size == 48
    assert student_config(StudentSettings(shape="1l-32d"), teacher).intermediate_size == 128
    wanted = StudentSettings(shape="1l-32d", init="cut", intermediate_size=20)
    assert student_config(wanted, teacher).intermediate_size == 20


def test_free_shapes() -> None:
    config = student_config(StudentSettings(shape="3l-96d"), BertConfig())
    assert (config.num_hidden_layers, config.hidden_size) == (3, 96)
    assert (config.intermediate_size, config.num_attention_heads) == (384, 12)
    config = student_config(StudentSettings(shape="3l-96d", num_attention_heads=4), BertConfig())
    assert config.num_attention_heads == 4


def test_what_student_means(tmp_path: Path) -> None:
    assert all(parse_student(name) == {"shape": name} for name in SHAPES)
    assert parse_student("6l-384d") == {"shape": "6l-384d"}
    assert parse_student("students/general") == {"model": "students/general"}
    (tmp_path / "student").mkdir()  # as a run leaves it
    (tmp_path / "student" / "config.json").write_text("{}")
    assert parse_student(str(tmp_path)) == {"model": str(tmp_path / "student")}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "student.hidden_size and student.num_hidden_layers must be given, or a shape"),
        ({"shape": "tinybert-5l"}, "student.shape must be one of tinybert-4l-312d"),
        (
            {"shape": "4l-100d"},
            "of 100 must be a multiple of its 12 heads. Use a width of 96, or .*=10",
        ),
        ({"model": "x", "shape": "4l-312d"}, "student.model and student.shape exclude each other"),
        ({"model": "x", "hidden_size": 8}, "student.model and student.hidden_size exclude each other"),
    ],
)
def test_bad_shapes(settings: dict[str, str], message: str, encoder: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        load_student(
            StudentSettings(**settings), str(encoder), get_task("mrpc"), ("no", "yes"), sample=no_text
        ) if ("model" in settings) else student_config(StudentSettings(**settings), BertConfig())


def test_a_student_from_scratch_is_drawn_from_the_seed(encoder: Path) -> None:
    settings, task = StudentSettings(shape="1l-16d"), get_task("mrpc")
    students = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        student, _ = load_student(settings, str(encoder), task, ("no", "yes"), sample=no_text, dropout=0.0)
        students.append(student)
    first, again, other = (next(iter(student.parameters())) for student in students)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert students[0].config.id2label == {0: "no", 1: "yes"}
    assert students[0].config.hidden_dropout_prob == 0.0


def test_a_saved_student_goes_on_and_must_share_the_tokenizer(
    encoder: Path, tokenizer: object, tmp_path: Path
) -> None:
    saved = tmp_path / "general"
    config = student_config(StudentSettings(shape="1l-16d"), BertConfig.from_pretrained(encoder))
    model = BertForMaskedLM(config)
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    task = get_task("stsb")
    student, _ = load_student(StudentSettings(model=str(saved)), str(encoder), task, None, sample=no_text)
    assert torch.equal(
        student.base_model.embeddings.word_embeddings.weight, model.bert.embeddings.word_embeddings.weight
    )
    other = saved / "tokenizer.json"
    other.write_text(other.read_text().replace('"mountain"', '"montagne"'))
    with pytest.raises(ModelError, match="must share one tokenizer"):
        load_student(StudentSettings(model=str(saved)), str(encoder), task, None, sample=no_text)
