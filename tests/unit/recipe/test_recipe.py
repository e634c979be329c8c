from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml

from understudy.distillation.recipes import PREFIXES
from understudy.errors import RecipeError
from understudy.kinds import kind_names
from understudy.kinds.tasks import get_task, task_names
from understudy.recipe.library import shipped_recipes
from understudy.recipe.load import apply_settings, build_recipe, load_recipe
from understudy.recipe.recipe import Recipe


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_are_valid_and_carry_their_command(name: str) -> None:
    recipe = load_recipe(name)
    header = [line for line in shipped_recipes()[name].splitlines() if line.startswith("# ")]
    start = next(place for place, line in enumerate(header) if "understudy " in line)
    command = " ".join(line.removeprefix("# ").strip(" \\") for line in header[start:])
    verb = "distill" if recipe.method else recipe.run or "finetune"
    verb = "augment" if recipe.augment else verb
    verb = "run" if recipe.finetune else "ablate" if name.endswith("-ablate") else verb
    assert command.removeprefix("torchrun --nproc-per-node 8 -m ").startswith(f"understudy {verb} ")
    if verb == "run":
        assert f"--recipe {name} " in command
    if name.startswith("desk-") and verb != "ablate":
        assert f"--recipe {name} " in command
    # Of the latter four there is one that their command takes.
    if name.startswith("desk-") or verb in ("run", "corpus", "general", "mine"):
        return
    # What the command says leads to this very recipe.
    prefix = PREFIXES[recipe.method] if recipe.method else verb
    words = command.split()
    task = get_task(words[words.index("--task") + 1])
    shipped = (
        f"{prefix}-{task.name}" if f"{prefix}-{task.name}" in shipped_recipes() else f"{prefix}-{task.kind}"
    )
    assert shipped == name
    if recipe.method not in (None, "tinybert"):
        assert f"--method {recipe.method} " in command


def test_every_recipe_says_whether_it_was_run() -> None:
    for name, text in shipped_recipes().items():
        header = " ".join(line for line in text.splitlines() if line.startswith("#"))
        assert any(
            words in header for words in ("Measured: ", "not run here", "Not run here", "Not run as such")
        ), name


def test_what_a_recipe_measured_fits_its_line() -> None:
    """`understudy recipes` shows the line alone."""
    lines = [line for text in shipped_recipes().values() for line in text.splitlines()[:3]]
    measured = [line for line in lines if line.startswith("# Measured")]
    assert measured
    assert [line for line in measured if not line.endswith(".")] == []


def test_the_papers_experiments_are_made_of_their_stages() -> None:
    """A whole run has the settings of the recipes for its stages."""
    for layers in (4, 6):
        for task in ("cola", "mnli", "squad"):
            whole, stage = load_recipe(f"tinybert{layers}-{task}"), load_recipe(f"tinybert-{task}")
            assert (whole.intermediate, whole.prediction) == (stage.intermediate, stage.prediction)
            assert whole.finetune is not None
            assert whole.finetune.training == load_recipe(f"finetune-{task}").training
    assert load_recipe("tinybert4-cola").augment == load_recipe("augment-cola").augment.model_copy(
        update={"model": "bert-base-uncased"}
    )
    assert load_recipe("pkd3-race").patient == load_recipe("pkd-multiple-choice").patient
    # The numbers of the papers: 50 epochs for CoLA, 10 for the large tasks, 20 for the others.
    epochs = {task: load_recipe(f"tinybert-{task}").intermediate for task in ("cola", "qnli", "rte")}
    assert [block.training["num_train_epochs"] for block in epochs.values()] == [50, 10, 20]


def test_every_task_has_a_recipe() -> None:
    with_labels = {name for name in task_names() if get_task(name).rows.learns_from_labels}
    names = {"tinybert": task_names(), "finetune": with_labels, "joint": kind_names()}
    names |= {prefix: with_labels & set(kind_names()) for prefix in ("soft-labels", "pkd", "augment")}
    for prefix, tasks in names.items():
        assert {f"{prefix}-{task}" for task in tasks} <= set(shipped_recipes())


def test_a_joint_block_has_something_to_learn() -> None:
    nothing = {"joint.layers": 0, "joint.predictions": 0, "joint.labels": 0, "joint.weights": None}
    with pytest.raises(RecipeError, match="joint leaves nothing to learn"):
        load_recipe("joint-classification", nothing | {"joint.until": None})
    with pytest.raises(RecipeError, match=r"joint\.until has no effect beside joint\.layers=0"):
        load_recipe("joint-classification", {"joint.layers": 0, "joint.weights": None})


@pytest.mark.parametrize(
    "idle",
    [{"data.unlabelled": ["more.txt"]}, {"unseen": True}, {"soft_labels.predictions": "p.parquet"}],
    ids=["unlabelled", "unseen", "predictions"],
)
def test_labels_alone_leave_no_use_for_predictions(idle: dict[str, Any]) -> None:
    labels = {"soft_labels.alpha": 0.0, "soft_labels.search": None}
    assert not load_recipe("soft-labels-classification", labels).soft_labels.reads_predictions
    with pytest.raises(RecipeError, match=rf"{next(iter(idle))} has no effect: with soft_labels\.alpha 0"):
        load_recipe("soft-labels-classification", labels | idle)
    some = {"soft_labels.search": {"alpha": [0.0, 0.5]}}
    assert load_recipe("soft-labels-classification", some | idle).soft_labels.reads_predictions


def test_a_recipe_is_frozen() -> None:
    recipe = load_recipe("finetune-mrpc")
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        recipe.task = "rte"


def test_settings_reach_every_level() -> None:
    recipe = load_recipe(
        "finetune-mrpc", ["training.learning_rate=1e-4", "data.labels=[a, b]", "dropout=0", "model=x"]
    )
    assert recipe.training["learning_rate"] == 1e-4
    assert recipe.data.labels == ["a", "b"]
    assert recipe.dropout == 0.0
    assert recipe.model == "x"
    assert recipe.training["num_train_epochs"] == 4


def test_labels_that_are_numbers_become_names() -> None:
    assert load_recipe("finetune-mrpc", ["data.labels=[0, 1]"]).data.labels == ["0", "1"]


def test_null_takes_a_key_away() -> None:
    assert (
        "load_best_model_at_end"
        not in load_recipe("finetune-mrpc", ["training.load_best_model_at_end=null"]).training
    )


def test_null_makes_no_block() -> None:
    assert apply_settings({}, ["augment.vectors=null", "finetune.training.seed=null"]) == {}


def test_search_does_not_get_around_what_a_stage_refuses() -> None:
    given = {"prediction.search": {"label_smoothing_factor": [0.0, 0.1]}}
    with pytest.raises(RecipeError, match=r"prediction\.training\.label_smoothing_factor cannot be set"):
        load_recipe("desk-tinybert-mrpc", given)


def test_settings_do_not_change_what_they_are_laid_over() -> None:
    values = {"training": {"seed": 1}}
    assert apply_settings(values, ["training.seed=2"]) == {"training": {"seed": 2}}
    assert values == {"training": {"seed": 1}}


def test_a_saved_recipe_reads_back_the_same(tmp_path: Path) -> None:
    recipe = load_recipe("desk-finetune-mrpc", ["data.source=glue", "data.columns={text: a, label: b}"])
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), "utf-8")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    assert "bad_rows" not in yaml.safe_load(recipe.to_yaml())["data"]


def test_lengths_are_the_tasks_own_unless_given() -> None:
    assert Recipe.from_mapping({"task": "cola"}).max_length == 64
    assert Recipe.from_mapping({"task": "cola", "data": {"max_length": 32}}).max_length == 32


def test_settings_mend_what_an_option_alone_would_be_refused_for() -> None:
    given = {"teacher": "teachers/sst2"}
    with pytest.raises(RecipeError, match="teacher and finetune exclude each other"):
        build_recipe("run", given, task=None, recipe="desk-sst2", settings=())
    built = build_recipe("run", given, task=None, recipe="desk-sst2", settings=["finetune=null"])
    assert built.finetune is None
    assert built.teacher == "teachers/sst2"


@pytest.mark.parametrize("other", [{"unseen": True}, {"student": {"source": "some/encoder"}}])
def test_a_smaller_vocabulary_is_for_teacher_and_student_alone(other: dict[str, Any]) -> None:
    student = {"vocabulary": {"min_count": 2}, **other.get("student", {})}
    values = {
        "task": "sst2",
        "method": "tinybert",
        "teacher": "t",
        "prediction": {},
        **other,
        "student": student,
    }
    with pytest.raises(RecipeError, match=r"student\.vocabulary and .* exclude each other"):
        Recipe.from_mapping(values)


def test_a_recipe_that_distils_does_not_fine_tune_and_names_one_that_does() -> None:
    with pytest.raises(RecipeError, match=r"understudy run fine-tunes one first; .* such as finetune-sst2"):
        load_recipe("quickstart", {"model": "encoder"})
    with pytest.raises(RecipeError, match=r"which starts from a teacher\.$"):  # nothing is fine-tuned for it
        load_recipe("tinybert-embedding", {"model": "encoder"})
