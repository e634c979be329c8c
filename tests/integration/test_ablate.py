"""The paper's ablations with tiny models: what each leaves out, what is shared, which orders are seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kinds import EXAMPLES
from teaching import train_teacher
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import OutputError, RecipeError
from understudy.pipeline.ablate import variant_recipe
from understudy.pipeline.ablations import ABLATIONS, FULL, AblationRow
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe

TINY = {
    f"{stage}.training.{key}": value
    for stage in ("intermediate", "prediction")
    for key, value in {"max_steps": 2, "report_to": "none", "per_device_train_batch_size": 4}.items()
} | {"data.max_length": 32, "student.num_attention_heads": 2}


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(encoder, "pair", tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def augmented(encoder: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("augmented")
    rows = str(teacher.parent / "rows.csv")
    settings = {"data.train": rows, "data.dev": rows, "augment.variants": 2}
    understudy.augment(encoder, task=EXAMPLES["pair"].task, output_dir=folder / "mrpc", settings=settings)
    return folder


def full() -> Recipe:
    values = {"teacher": "teacher", "data.augmented": "rows", "student": {"model": "general"}}
    return load_recipe("desk-ablate", values)


def variant(name: str) -> AblationRow:
    return next(one for table in ABLATIONS.values() for one in table.variants if one.name == name)


def test_each_variant_leaves_out_one_part() -> None:
    run = full()
    assert run.data.augmented == "rows"
    assert variant_recipe(run, AblationRow(FULL, {}), Path("full")) == run
    assert variant_recipe(run, variant("w/o DA"), Path("full")).data.augmented is None
    weights = {
        name: variant_recipe(run, variant(f"w/o {name}"), Path("full")).intermediate.weights
        for name in ("Embd", "Trm", "Attn", "Hidn")
    }
    assert weights == {
        "Embd": {"attention": 0.02, "embeddings": 0.0},
        "Trm": {"attention": 0.0, "hidden": 0.0},
        "Attn": {"attention": 0.0},
        "Hidn": {"attention": 0.02, "hidden": 0.0},
    }
    assert variant_recipe(run, variant("Top"), Path("full")).intermediate.layer_map == "top"
    no_task = variant_recipe(run, variant("w/o TD"), Path("full"))
    assert (no_task.method, no_task.soft_labels.alpha, no_task.data.augmented) == ("soft-labels", 0.0, "rows")
    assert no_task.soft_labels.training["max_steps"] == 120  # as both stages together
    labels = variant_recipe(run, variant("w/o Pred"), Path("full"))
    assert (labels.method, labels.soft_labels.alpha, labels.data.augmented) == ("soft-labels", 0.0, None)
    assert labels.student.model == "full/intermediate/student"
    assert labels.soft_labels.training["max_steps"] == 60


def test_tables_of_several_seeds(teacher: Path, augmented: Path, encoder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["ablate", str(teacher), "--student", str(encoder), "--augmented", str(augmented)]
    arguments += ["--seeds", "1,2", "--output-dir", str(out), "--json"]
    settings = {key: value for key, value in TINY.items() if not key.startswith("student.")}
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.exception
    content = json.loads(done.stdout)
    assert list(content["tables"]) == ["procedures", "objectives", "maps"]
    rows = content["tables"]["objectives"]["rows"]
    assert [row["variant"] for row in rows] == [
        FULL,
        "w/o Embd",
        "w/o Pred",
        "w/o Trm",
        "w/o Attn",
        "w/o Hidn",
    ]
    # One full run stands in all tables.
    assert len({json.dumps(table["rows"][0]) for table in content["tables"].values()}) == 1
    assert len(list((out / "mrpc").iterdir())) == 2 * (1 + 3 + 5 + 2)
    for table in content["tables"].values():
        for claim in table["claims"]:
            above, below = claim["claim"].split(" > ")
            means = {row["variant"]: row["mean"] for row in table["rows"]}
            difference = claim["difference"]
            assert difference["value"] == pytest.approx(means[above] - means[below])
            assert difference["low"] <= difference["value"] <= difference["high"]
            # Few rows and two seeds show an order only where its interval is above 0.
            assert (claim["verdict"] == "seen") == (difference["low"] > 0)
            assert 0 <= claim["seeds"] <= 2
    for row in rows:
        assert row["mean"] == pytest.approx(sum(row["seeds"]) / 2)
        saved = json.loads(
            (
                out / "mrpc" / f"{row['variant'].lower().replace('w/o ', 'without-')}-1" / "result.json"
            ).read_text()
        )
        assert row["seeds"][0] == saved["scores"]["dev"]["f1"]["value"]
    text = (out / "table.md").read_text()
    assert "| w/o GD |" in text
    assert "| Top |" in text
    assert (out / "maps.svg").read_text().startswith("<?xml")
    # From scratch where general distillation is left out, in the general student's sizes.
    scratch = load_recipe(out / "mrpc" / "without-gd-1" / "recipe.yaml").student
    assert (scratch.init, scratch.model, scratch.hidden_size) == ("random", None, 32)
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*/*/result.json")}

    def again() -> dict[Path, int]:
        understudy.ablate(
            [teacher], tables=["maps"], student=str(encoder), augmented=augmented, seeds=[1],
            settings=settings, output_dir=out,
        )  # fmt: skip
        return {file: file.stat().st_mtime_ns for file in out.rglob("*/*/result.json")}

    assert again() == before
    # A damaged run is made again, and no other.
    damaged = out / "mrpc" / "top-1" / "prediction" / "student" / "tokenizer.json"
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b"the", b"teh", 1))
    after = again()
    assert damaged.read_bytes() == content
    changed = [file.relative_to(out / "mrpc") for file in before if after[file] != before[file]]
    assert {file.parts[0] for file in changed} == {"top-1"}


def test_procedures_need_what_they_leave_out(teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--augmented"):
        understudy.ablate([teacher], tables=["procedures"], output_dir=tmp_path)
    with pytest.raises(RecipeError, match="--table must be of procedures"):
        understudy.ablate([teacher], tables=["5"], output_dir=tmp_path)


def test_what_cannot_be_compared_is_refused(teacher: Path, encoder: Path, tmp_path: Path) -> None:
    options = {"tables": ["maps"], "student": str(encoder), "output_dir": tmp_path / "out", "seeds": [1]}
    settings = {key: value for key, value in TINY.items() if not key.startswith("student.")}
    searched = {"prediction.training.learning_rate": None, "prediction.search.learning_rate": [1e-3]}
    with pytest.raises(RecipeError, match="take the search out"):
        understudy.ablate([teacher], settings=searched, **options)
    with pytest.raises(RecipeError, match="must both have max_steps"):
        understudy.ablate([teacher], settings={"prediction.training.max_steps": None}, **options)
    no_length = dict.fromkeys((f"{one}.training.max_steps" for one in ("intermediate", "prediction")), None)
    no_length |= {name.replace("max_steps", "num_train_epochs"): None for name in no_length}
    with pytest.raises(RecipeError, match="must both have max_steps"):
        understudy.ablate([teacher], settings=settings | no_length, **options)
    smaller = {**TINY, "student.vocabulary.min_count": 2}
    with pytest.raises(RecipeError, match=r"student\.vocabulary would make them differ"):
        understudy.ablate([teacher], settings=smaller, **{**options, "student": None})
    with pytest.raises(RecipeError, match="two of the teachers are of the task mrpc"):
        understudy.ablate([teacher, teacher], settings=settings, **options)
    understudy.ablate([teacher], settings=settings, **options)
    with pytest.raises(OutputError, match="other settings"):
        understudy.ablate([teacher], settings=settings | {"dropout": 0.1}, **options)
