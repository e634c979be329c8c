"""Embedding models: their rows, their pooling, and the files of sentence-transformers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModel, BertConfig, DistilBertConfig, MPNetConfig, PreTrainedTokenizerFast

from understudy.data.encode import Collator, encode
from understudy.data.load import load_data
from understudy.data.raw_rows import Problem, RawRow
from understudy.data.rows import check_row
from understudy.data.settings import DataSettings
from understudy.distillation.recipes import finetune_recipe
from understudy.errors import DataError, ModelError, RecipeError
from understudy.evaluation.score import predict_logits, prepare_split
from understudy.kinds import get_kind
from understudy.kinds.embedding.model import embed, place_channels, pooled_class
from understudy.kinds.embedding.pooling import Pooling, pooling_of, set_pooling, write_modules
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_config, load_model
from understudy.recipe.recipe import Recipe
from understudy.workspace.hashes import hash_model

KIND = get_kind("embedding")
TASK = get_task("embedding")


def small_bert(**sizes: int) -> BertConfig:
    return BertConfig(
        vocab_size=300,
        **{"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
        | sizes,
    )


def test_a_text_needs_no_label_and_a_pair_needs_a_score() -> None:
    def checked(values: dict[str, Any]) -> Any:
        return check_row(KIND, RawRow("line 2", values), {name: name for name in values}, None)

    assert checked({"text": "a"}) == {"text": "a"}
    assert checked({"text": "a", "text_pair": "b", "label": "2.5"}) == {
        "text": "a",
        "text_pair": "b",
        "label": 2.5,
    }
    for values, detail in (
        ({"text": "a", "text_pair": "b"}, "a pair must have a score"),
        ({"text": "a", "text_pair": "b", "label": "high"}, "label must be a number"),
        ({"text": None}, "text"),
    ):
        problem = checked(values)
        assert isinstance(problem, Problem)
        assert detail in problem.detail


def test_texts_are_unlabelled_rows_and_pairs_are_scored(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("body,label\none\nthree four,x\n".replace("one", "one,y"), "utf-8")
    (tmp_path / "dev.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t0\n", "utf-8")
    recipe = Recipe.from_mapping(
        {
            "task": "embedding",
            "method": "tinybert",
            "data": {"train": str(tmp_path / "texts.csv"), "dev": str(tmp_path / "dev.tsv")},
            "prediction": {},
        }
    )
    assert recipe.data.train is None
    assert recipe.data.unlabelled == [str(tmp_path / "texts.csv")]
    data = load_data(TASK, recipe.data.model_copy(update={"columns": {}}), ["train", "dev"])
    assert data.splits["unlabelled"]["text"][:] == ["one", "three four"]
    assert data.splits["unlabelled"].column_names == ["row", "text"]
    assert data.splits["dev"][0] == {"row": 0, "text": "a", "text_pair": "b", "label": 1.0}


def test_the_texts_of_a_pair_are_encoded_by_themselves(tokenizer: PreTrainedTokenizerFast) -> None:
    pairs = Dataset.from_dict(
        {"row": [0, 1], "text": ["good film", "bad"], "text_pair": ["a", "the red cat"], "label": [1.0, 0.0]}
    )
    encoded = encode(pairs, KIND, tokenizer, max_length=5)
    alone = encode(
        Dataset.from_dict({"row": [0, 1], "text": ["good film", "the red cat"]}),
        KIND,
        tokenizer,
        max_length=5,
    )
    assert encoded[0]["input_ids"][0] == alone[0]["input_ids"]
    assert encoded[1]["input_ids"][1] == alone[1]["input_ids"]
    assert encoded["length"][:] == [4, 5]
    batch = Collator(tokenizer)([encoded[0], encoded[1]])
    assert batch["input_ids"].shape == (2, 2, 8)
    assert batch["labels"].tolist() == [1.0, 0.0]


STATES = torch.tensor([[[1.0, 2.0], [3.0, 0.0], [9.0, 9.0]], [[1.0, 1.0], [1.0, 1.0], [4.0, 1.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean", [[2.0, 1.0], [2.0, 1.0]]),
        ("cls", [[1.0, 2.0], [1.0, 1.0]]),
        ("last", [[3.0, 0.0], [4.0, 1.0]]),
    ],
)
def test_pooling_by_hand(mode: str, expected: list[list[float]]) -> None:
    plain = embed(STATES, MASK, Pooling(mode, 2, normalize=False), None)
    assert plain.tolist() == expected
    scaled = embed(STATES, MASK, Pooling(mode, 2), None)
    assert torch.allclose(scaled, torch.nn.functional.normalize(torch.tensor(expected)))


def test_the_last_token_is_found_on_either_side() -> None:
    left = embed(STATES[:1], torch.tensor([[0, 1, 1]]), Pooling("last", 2, normalize=False), None)
    assert left.tolist() == [[9.0, 9.0]]


def test_a_dense_layer_comes_after_pooling_and_before_the_length() -> None:
    projection = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(projection.weight, 2.0)
    torch.nn.init.constant_(projection.bias, 1.0)
    vectors = embed(STATES, MASK, Pooling("mean", 1, normalize=False, dense=True), projection)
    assert vectors.tolist() == [[7.0], [7.0]]
    tanh = embed(STATES, MASK, Pooling("mean", 1, normalize=False, dense=True, activation="tanh"), projection)
    assert tanh.flatten().tolist() == pytest.approx([np.tanh(7.0)] * 2)


def small_distilbert() -> DistilBertConfig:
    return DistilBertConfig(vocab_size=300, dim=8, n_layers=2, n_heads=2, hidden_dim=16)


def small_mpnet() -> MPNetConfig:
    return MPNetConfig(
        vocab_size=300, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )


@pytest.mark.parametrize(
    "config", [small_bert(), small_distilbert(), small_mpnet()], ids=lambda one: one.model_type
)
def test_a_model_is_saved_with_its_dense_layer_and_loads_as_a_plain_encoder(
    tmp_path: Path, config: Any
) -> None:
    teacher = small_bert(hidden_size=12)
    set_pooling(config, teacher)
    assert config.pooling["dimension"] == 12
    torch.manual_seed(0)
    model = pooled_class(config)._from_config(config).eval()
    inputs = {"input_ids": torch.tensor([[5, 6, 7], [8, 9, 1]]), "attention_mask": torch.ones(2, 3).long()}
    vectors = model(**inputs).logits
    assert vectors.shape == (2, 12)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(2))
    model.save_pretrained(tmp_path)
    assert (tmp_path / "2_Dense" / "model.safetensors").is_file()
    again = load_model(str(tmp_path), TASK, None, fine_tuned=True)
    assert torch.equal(again.eval()(**inputs).logits, vectors)
    plain = AutoModel.from_pretrained(tmp_path).eval()
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [type(plain).__name__]
    states = plain(**inputs).last_hidden_state
    assert torch.allclose(
        embed(states, inputs["attention_mask"], Pooling(**config.pooling), model.projection), vectors
    )


def test_pairs_give_the_vectors_of_their_texts(encoder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    model = load_model(str(encoder), TASK, None, fine_tuned=True)
    texts = ["a good film", "the red cat runs fast .", "bad", "what is it"]
    pairs = Dataset.from_dict({"row": [0, 1], "text": texts[:2], "text_pair": texts[2:], "label": [1.0, 0.0]})
    split = prepare_split(TASK, pairs, tokenizer, max_length=32)
    logits = predict_logits(model, tokenizer, split.encoded, batch_size=2)
    single = prepare_split(
        TASK, Dataset.from_dict({"row": [0, 1, 2, 3], "text": texts}), tokenizer, max_length=32
    )
    alone = predict_logits(model, tokenizer, single.encoded, batch_size=1)[0][
        np.argsort(single.encoded["row"][:])
    ]
    judged = split.judge(logits)
    expected = [float(alone[place] @ alone[place + 2]) for place in (0, 1)]
    assert judged.values == pytest.approx(expected, abs=1e-6)
    assert judged.outcomes[:, 1].tolist() == [1.0, 0.0]
    assert np.isnan(judged.outcomes[:, 2]).all()
    ranked = prepare_split(TASK.with_metric("mrr_at_10"), pairs, tokenizer, max_length=32).judge(logits)
    second_best = [
        1 + int(alone[place] @ alone[3 - place] > alone[place] @ alone[2 + place]) for place in (0, 1)
    ]
    assert ranked.outcomes[:, 2].tolist() == second_best


def test_single_texts_cannot_be_scored(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text("text,label\na,1\nb,0\n", "utf-8")
    settings = DataSettings(dev=str(tmp_path / "dev.csv"), unlabelled=[str(tmp_path / "dev.csv")])
    with pytest.raises(DataError, match="must have text_pair, label; there is no text_pair"):
        load_data(TASK, settings, ["train", "dev"])


def test_texts_of_development_pairs_are_not_learnt_from(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (tmp_path / "dev.csv").write_text("text,text_pair,label\none,three,1\nfour,five,0\n", "utf-8")
    settings = DataSettings(dev=str(tmp_path / "dev.csv"), unlabelled=[str(tmp_path / "texts.txt")])
    data = load_data(TASK, settings, ["train", "dev"])
    assert data.splits["unlabelled"]["text"][:] == ["two"]


def test_texts_and_pairs_may_have_other_columns(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,body\n1,one\n2,two\n", "utf-8")
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,0\n", "utf-8")
    settings = DataSettings(
        dev=str(tmp_path / "dev.csv"), unlabelled=[str(tmp_path / "texts.csv")], columns={"text": "body"}
    )
    data = load_data(TASK, settings, ["train", "dev"])
    assert data.splits["unlabelled"]["text"][:] == ["one", "two"]
    assert data.splits["dev"]["text_pair"][:] == ["b", "d"]


def test_held_out_texts_are_paired_with_their_nearest_and_another() -> None:
    vectors = np.eye(6, dtype=np.float32)
    vectors[1] = vectors[0] * 0.9 + vectors[1] * 0.1
    rows = Dataset.from_dict({"row": list(range(6)), "text": list("abcdef")})
    made = KIND.label_rows(TASK, rows, rows, (vectors,))
    assert len(made) == 12
    assert made[0] == {"text": "a", "text_pair": "b", "label": pytest.approx(0.9 / np.hypot(0.9, 0.1))}
    assert all(row["text"] != row["text_pair"] for row in made)


def test_a_cut_student_starts_with_each_channel_in_its_place(tmp_path: Path) -> None:
    source = sentence_model(tmp_path, ["Transformer", "Pooling"], {"word_embedding_dimension": 8, **MEAN})
    student = SimpleNamespace(projection=torch.nn.Linear(2, 8))
    place_channels(student, torch.tensor([1, 3]), source)
    assert student.projection(torch.tensor([[5.0, 7.0]])).tolist() == [
        [0.0, 5.0, 0.0, 7.0, 0.0, 0.0, 0.0, 0.0]
    ]
    narrow = SimpleNamespace(projection=torch.nn.Linear(2, 3))
    before = narrow.projection.weight.clone()
    place_channels(narrow, torch.tensor([1, 3]), source)  # its vectors are not the source's
    assert torch.equal(narrow.projection.weight, before)


@pytest.mark.parametrize("older", [False, True])
def test_a_cut_student_takes_the_columns_of_its_teachers_dense_layer(tmp_path: Path, older: bool) -> None:
    config = small_bert()
    config.pooling = asdict(Pooling("mean", 5, dense=True))
    torch.manual_seed(0)
    teacher = pooled_class(config)._from_config(config)
    teacher.save_pretrained(tmp_path)
    if older:  # as sentence-transformers saved it before
        weights = tmp_path / "2_Dense" / "model.safetensors"
        torch.save(load_file(weights), tmp_path / "2_Dense" / "pytorch_model.bin")
        weights.unlink()
    again = load_model(str(tmp_path), TASK, None, fine_tuned=True)
    assert torch.equal(again.projection.weight, teacher.projection.weight)
    student = SimpleNamespace(projection=torch.nn.Linear(2, 5))
    place_channels(student, torch.tensor([1, 3]), load_config(str(tmp_path)))
    assert torch.equal(student.projection.weight, teacher.projection.weight[:, [1, 3]])
    assert torch.equal(student.projection.bias, teacher.projection.bias)


def test_a_dense_layer_without_weights_is_refused(tmp_path: Path) -> None:
    config = small_bert()
    config.pooling = asdict(Pooling("mean", 5, dense=True))
    pooled_class(config)._from_config(config).save_pretrained(tmp_path)
    (tmp_path / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="a Dense module without weights in 2_Dense"):
        load_model(str(tmp_path), TASK, None, fine_tuned=True)


def test_another_pooling_is_another_model(tmp_path: Path) -> None:
    hashes = set()
    for name, settings in (("mean", MEAN), ("cls", {"pooling_mode_cls_token": True})):
        (tmp_path / name).mkdir()
        sentence_model(
            tmp_path / name, ["Transformer", "Pooling"], {"word_embedding_dimension": 8, **settings}
        )
        hashes.add(hash_model(str(tmp_path / name)))
    assert len(hashes) == 2


MEAN = {"pooling_mode_mean_tokens": True}


def sentence_model(folder: Path, modules: list[str], pooling: dict[str, Any], **files: dict[str, Any]) -> Any:
    config = small_bert()
    config.save_pretrained(folder)
    paths = ["", *(f"{place}_{name}" for place, name in enumerate(modules) if place)]
    content = [
        {"path": path, "type": f"sentence_transformers.models.{name}"}
        for path, name in zip(paths, modules, strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(content))
    for path, settings in (("1_Pooling", pooling), *files.items()):
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(settings))
    return load_config(str(folder))


@pytest.mark.parametrize(
    ("modules", "settings", "expected"),
    [
        (["Transformer", "Pooling"], {"pooling_mode_cls_token": True}, Pooling("cls", 8, normalize=False)),
        (["Transformer", "Pooling", "Normalize"], {"pooling_mode_mean_tokens": True}, Pooling("mean", 8)),
        (["Transformer", "Pooling"], {"pooling_mode": "lasttoken"}, Pooling("last", 8, normalize=False)),
    ],
)
def test_the_pooling_of_a_sentence_model(
    tmp_path: Path, modules: list[str], settings: dict[str, Any], expected: Pooling
) -> None:
    config = sentence_model(tmp_path, modules, {"word_embedding_dimension": 8, **settings})
    assert pooling_of(config) == expected
    # What we write says the same.
    (tmp_path / "again").mkdir()
    config.save_pretrained(tmp_path / "again")
    write_modules(tmp_path / "again", expected, 8)
    assert pooling_of(load_config(str(tmp_path / "again"))) == expected


def test_a_dense_module_is_read(tmp_path: Path) -> None:
    dense = {"in_features": 8, "out_features": 5, "bias": False}
    dense["activation_function"] = "torch.nn.modules.activation.Tanh"  # type: ignore[assignment]
    pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    config = sentence_model(tmp_path, ["Transformer", "Pooling", "Dense"], pooling, **{"2_Dense": dense})
    expected = Pooling("mean", 5, normalize=False, dense=True, bias=False, activation="tanh")
    assert pooling_of(config) == expected
    student = small_bert(hidden_size=4)
    set_pooling(student, config)
    assert Pooling(**student.pooling) == expected


@pytest.mark.parametrize(
    ("modules", "settings", "message"),
    [
        (["Transformer", "Pooling"], {"pooling_mode_max_tokens": True}, "pools by pooling_mode_max_tokens"),
        (
            ["Transformer", "Pooling"],
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            "pools by mean and cls; one of mean, cls and last is needed",
        ),
        (["Transformer", "LSTM", "Pooling"], {}, "has the modules Transformer, LSTM, Pooling"),
    ],
)
def test_other_sentence_models_are_refused(
    tmp_path: Path, modules: list[str], settings: dict[str, Any], message: str
) -> None:
    config = sentence_model(tmp_path, modules, {"word_embedding_dimension": 8, **settings})
    with pytest.raises(ModelError, match=message):
        pooling_of(config)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"method": "soft-labels", "soft_labels": {}},
            "method: soft-labels needs labels, and embedding has none",
        ),
        ({"data": {"train": "a.csv", "dev_share": 0.1}}, "--split .* has no effect on embedding"),
        ({"data": {"source": "glue"}}, "data.source has no effect on embedding"),
        ({"method": "joint", "prediction": None, "joint": {}}, "joint.labels must be 0"),
    ],
)
def test_what_only_labels_serve_is_refused(changed: dict[str, Any], message: str) -> None:
    values = {"task": "embedding", "method": "tinybert", "prediction": {}, "data": {"train": "a.csv"}}
    merged = {name: value for name, value in {**values, **changed}.items() if value is not None}
    with pytest.raises(RecipeError, match=message):
        Recipe.from_mapping(merged)


def test_settings_without_labels_are_kept() -> None:
    settings = DataSettings(unlabelled=["a.txt"], train="b.csv")
    recipe = Recipe.from_mapping(
        {"task": "embedding", "method": "joint", "joint": {"labels": 0}, "data": settings.model_dump()}
    )
    assert recipe.data.unlabelled == ["b.csv", "a.txt"]


def test_fine_tuning_is_refused() -> None:
    with pytest.raises(RecipeError, match="fine-tuning needs labels, and embedding has none"):
        finetune_recipe("model", task="embedding", data=None, recipe=None, settings={"data.train": "a.csv"})
