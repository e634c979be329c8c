"""Recipes of commands, built from their arguments without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from understudy.augmentation.settings import AugmentSettings
from understudy.errors import RecipeError, did_you_mean
from understudy.hub import check_model_name
from understudy.kinds.tasks import DEFAULT_KIND, get_task
from understudy.mining.settings import MineSettings
from understudy.models.settings import override_sizes, student_settings, teacher_inside
from understudy.recipe.distillation import Method
from understudy.recipe.inputs import check_sizes
from understudy.recipe.library import shipped_recipes
from understudy.recipe.load import build_recipe, load_recipe, no_task, parse_settings, without_none
from understudy.recipe.recipe import Recipe
from understudy.workspace.recipes import saved_recipe, why_no_recipe

# Name prefixes of each method's shipped recipes.
PREFIXES = {"tinybert": "tinybert", "joint": "joint", "patient": "pkd", "soft-labels": "soft-labels"}


def distill_recipe(
    teacher: str | Path | None,
    *,
    student: str | None,
    method: str | None,
    predictions: str | Path | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
    without: Sequence[str] = (),
) -> Recipe:
    """Build the recipe from a command's arguments and the teacher's own recipe.

    Args:
        method: None for the recipe's own, or `tinybert` without a recipe.
        without: blocks of the named recipe to leave out.
    """
    named = load_recipe(recipe) if recipe is not None else None
    if method is None:
        method = named.method if named is not None and named.method is not None else "tinybert"
    if method not in get_args(Method):
        meant = [one for one, prefix in PREFIXES.items() if prefix == method]
        hint = f" Did you mean {meant[0]!r}?" if meant else did_you_mean(method, get_args(Method))
        raise RecipeError(f"--method must be one of {', '.join(get_args(Method))}; got {method!r}.{hint}")
    if predictions is not None and method != "soft-labels":
        raise RecipeError("--predictions goes with --method soft-labels: a file has no layers to learn from.")
    teacher = teacher_inside(teacher) if teacher is not None else None
    given: dict[str, Any] = dict.fromkeys(without)
    given |= without_none({"teacher": teacher, "data.source": data, "soft_labels.predictions": predictions})
    settings = parse_settings(settings)
    if student is not None:
        start = student_settings(student)
        if "student" in start:
            given |= start
        else:
            settings = start | settings
    settings = override_sizes(settings)
    saved = saved_recipe(teacher) if teacher is not None else None
    known = load_recipe(saved) if saved is not None else None
    if known is not None and task is None and (named is None or named.task == _kind_of(known)):
        task = known.task
    if named is not None and named.method != method:
        raise RecipeError(f"{recipe} is not a recipe for --method {method}: its method is {named.method}.")
    if task is None and recipe is None and "data.train" in settings:
        task = DEFAULT_KIND
    if task is None and recipe is None and teacher is not None:
        raise RecipeError(f"{no_task(given.get('data.source'))} {why_no_recipe(teacher)}.")
    built = build_recipe(PREFIXES[method], given, task=task, recipe=recipe, settings=settings)
    return built if known is None else with_data_of(built, known)


def finetune_recipe(
    model: str | Path | None,
    *,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe of a fine-tuning from a command's arguments."""
    if task is None and recipe is None and "data.train" in parse_settings(settings):
        task = DEFAULT_KIND
    given = without_none({"model": model, "data.source": data})
    if task is not None and not get_task(task).rows.learns_from_labels:
        raise RecipeError(
            f"fine-tuning needs labels, and {task} has none. Distil a finished model: understudy distill "
            f"MODEL --task {task} --unlabelled texts.txt …"
        )
    return build_recipe("finetune", given, task=task, recipe=recipe, settings=settings)


def augment_recipe(
    model: str | Path | None,
    *,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe of an augmentation from a command's arguments."""
    if task is None and recipe is None and "data.train" in parse_settings(settings):
        task = DEFAULT_KIND
    given = without_none({"augment.model": model, "data.source": data})
    return build_recipe("augment", given, task=task, recipe=recipe, settings=settings)


def corpus_recipe(
    sources: Sequence[str | Path] | None,
    *,
    tokenizer: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe of a corpus from a command's arguments."""
    given: dict[str, Any] = without_none({"corpus.tokenizer": tokenizer})
    if sources:
        given["corpus.sources"] = [str(source) for source in sources]
    return load_recipe(recipe or "corpus", given | parse_settings(settings))


def general_recipe(
    teacher: str | Path | None,
    *,
    corpus: str | Path | None,
    student: str | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe of a general distillation from a command's arguments."""
    given: dict[str, Any] = without_none({"teacher": teacher, "general.corpus": corpus})
    if student is not None:
        given |= student_settings(student)
    return load_recipe(recipe or "general-tinybert", override_sizes(given | parse_settings(settings)))


def mine_recipe(
    sources: Sequence[str | Path] | None,
    *,
    teacher: str | Path | None,
    encoder: str | Path | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe from a command's arguments and the teacher's own recipe."""
    given: dict[str, Any] = without_none(
        {"teacher": teacher, "mine.encoder": encoder, "task": task, "data.source": data}
    )
    if sources:
        given["mine.sources"] = [str(source) for source in sources]
    built = load_recipe(recipe or "mine", given | parse_settings(settings))
    if built.teacher is None or built.mine is None:
        return built
    teacher = str(teacher_inside(built.teacher))
    saved = saved_recipe(teacher)
    known = load_recipe(saved) if saved is not None else None
    start = None if known is None else known.model or (known.finetune.model if known.finetune else None)
    update: dict[str, Any] = {"teacher": teacher}
    if built.mine.encoder is None:
        update["mine"] = built.mine.model_copy(update={"encoder": start or teacher})
    if built.task is None and known is not None:
        update["task"] = known.task
    built = built.model_copy(update=update)
    # The rows that the teacher was fine-tuned on; any other rows it learnt from are not searched for.
    without = ("unlabelled", "labelled_share", "augmented")
    return built if known is None else with_data_of(built, known, without=without)


def check_mine(recipe: Recipe) -> MineSettings:
    """Return a recipe's `mine` block; raise an error if something is missing."""
    settings = recipe.mine
    if settings is None or not settings.sources:
        raise RecipeError("mine.sources must be given: files, folders or hub datasets of text.")
    if recipe.task is None:
        raise RecipeError("--task must be given, e.g. --task mrpc; or a teacher that knows its task.")
    if settings.encoder is None:
        raise RecipeError("mine.encoder or a teacher must be given: a folder or a hub name.")
    if not settings.pairs.shares:
        raise RecipeError("mine.pairs leaves no pairs to make: every share is 0.")
    varies = settings.pairs.augmented > 0
    if varies and (recipe.augment is None or recipe.augment.model is None):
        raise RecipeError("mine.pairs.augmented needs augment.model: a masked language model.")
    if recipe.augment is not None and not varies:
        raise RecipeError("augment has no effect without a share of mine.pairs.augmented.")
    for name in ("variants", "vectors", "vector_words", "entities"):
        default = AugmentSettings.model_fields[name].default
        if recipe.augment is not None and getattr(recipe.augment, name) != default:
            raise RecipeError(f"augment.{name} has no effect on mine: a sentence gets one variant.")
    return settings


def run_recipe_name(
    model: str | Path | None,
    task: str | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> str | Path | None:
    """Return the named recipe of a whole run, or the shipped one for a user's own files: `desk-KIND`."""
    if recipe is not None or "data.train" not in parse_settings(settings):
        return recipe
    if task is None and model is not None:
        saved = saved_recipe(teacher_inside(model))
        task = load_recipe(saved).task if saved is not None else None
    name = f"desk-{task or DEFAULT_KIND}"
    return name if name in shipped_recipes() else None


def run_method(recipe: str | Path | None) -> Method:
    """Return the method of a whole run."""
    method = "tinybert" if recipe is None else load_recipe(recipe).method
    if method is None:
        raise RecipeError(
            f"{recipe} has no method to distil with. Recipes of whole runs are quickstart, desk-sst2 and "
            "others that `understudy recipes` lists."
        )
    return method


def preliminary_recipe(
    model: str | None,
    *,
    student: str | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build as much of a whole run's recipe as is known before the model is read, which needs torch."""
    recipe = run_recipe_name(model, task, recipe, settings)
    knows_its_task = model is not None and saved_recipe(teacher_inside(model)) is not None
    if model is not None:
        check_model_name(model, "the model")
    built = distill_recipe(
        model if knows_its_task else None,
        student=student,
        method=run_method(recipe),
        predictions=None,
        task=task,
        data=data,
        recipe=recipe,
        settings=settings,
        without=["finetune"] if knows_its_task else [],
    )
    if model is None:
        find_teacher(built)
    check_sizes(built, model)
    return built


def find_teacher(recipe: Recipe) -> str:
    """Return the teacher of a whole run, or the encoder that becomes one."""
    teacher = recipe.teacher or (recipe.finetune.model if recipe.finetune is not None else None)
    if teacher is None:
        raise RecipeError(
            "a model must be given: a fine-tuned teacher, or an encoder to fine-tune first, e.g. "
            "understudy run bert-base-uncased --task mrpc --data nyu-mll/glue --output-dir runs/mrpc"
        )
    return teacher


def _kind_of(recipe: Recipe) -> str | None:
    """Return the name of the kind of a recipe's task."""
    return get_task(recipe.task).rows.name if recipe.task is not None else None


def with_data_of(recipe: Recipe, known: Recipe, *, without: Sequence[str] = ()) -> Recipe:
    """Return a recipe, with its teacher's data if it names none and both have the same task.

    Args:
        without: keys of the teacher's data settings to leave out.
    """
    has_data = any(getattr(recipe.data, name) for name in ("source", "train", "dev"))
    if has_data or known.task != recipe.task:
        return recipe
    # The recipe's own data settings (its length) win; the rest comes from the teacher.
    values = known.data.model_dump(exclude_defaults=True, exclude=set(without))
    values |= recipe.data.model_dump(exclude_defaults=True)
    return recipe.model_copy(update={"data": type(recipe.data).model_validate(values)})
