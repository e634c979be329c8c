"""Resolve a recipe: its inputs, absolute paths, and choices that depend on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.errors import RecipeError
from understudy.files import is_pattern
from understudy.recipe.recipe import Recipe


def input_paths(recipe: Recipe) -> list[str]:
    """Return the paths and hub names of everything that a recipe reads."""
    data, student, augment = recipe.data, recipe.student, recipe.augment
    named = [
        recipe.model,
        recipe.teacher,
        student.model,
        student.source,
        *(student.vocabulary.corpus if student.vocabulary is not None else ()),
        *(data.source, data.train, data.dev, data.test, data.augmented, *(data.unlabelled or ())),
        *(
            (augment.model, augment.vectors, augment.vector_words, augment.stop_words)
            if augment is not None
            else ()
        ),
        recipe.finetune.model if recipe.finetune is not None else None,
        recipe.soft_labels.predictions if recipe.soft_labels is not None else None,
        recipe.corpus.tokenizer if recipe.corpus is not None else None,
        recipe.general.corpus if recipe.general is not None else None,
        *((recipe.mine.encoder, *recipe.mine.exclude) if recipe.mine is not None else ()),
    ]
    return [name for name in named if name is not None]


def refuse_other_stages(recipe: Recipe) -> None:
    """Refuse blocks of other stages in a recipe for training."""
    if recipe.augment is not None:
        raise RecipeError(
            "augment has no effect here. Run understudy augment first, and give its folder as "
            "data.augmented; or understudy run, which does it all."
        )
    for name in ("finetune", "export"):
        if getattr(recipe, name) is not None:
            raise RecipeError(
                f"{name} has no effect here: understudy run reads it. Run that, or leave it out."
            )
    if recipe.tolerate != type(recipe).model_fields["tolerate"].default:
        raise RecipeError("tolerate has no effect here: understudy run reads it. Run that, or leave it out.")


def resolve_paths(recipe: Recipe) -> Recipe:
    """Make paths absolute, so that a saved recipe works from any folder; hub names are kept."""

    def absolute(value: str | None) -> str | None:
        path = Path(value).expanduser() if value is not None else None
        return str(path.resolve()) if path is not None and path.exists() else value

    def all_absolute(sources: Sequence[str]) -> list[str]:
        return [_absolute_pattern(str(absolute(source))) for source in sources]

    vocabulary = recipe.student.vocabulary
    names = ("source", "train", "dev", "test", "augmented")
    places: dict[str, Any] = {name: absolute(getattr(recipe.data, name)) for name in names}
    if recipe.data.unlabelled is not None:
        places["unlabelled"] = all_absolute(recipe.data.unlabelled)
    return recipe.model_copy(
        update={
            "model": absolute(recipe.model),
            "teacher": absolute(recipe.teacher),
            "student": recipe.student.model_copy(
                update={
                    "model": absolute(recipe.student.model),
                    "source": absolute(recipe.student.source),
                    "vocabulary": vocabulary
                    and vocabulary.model_copy(update={"corpus": all_absolute(vocabulary.corpus)}),
                }
            ),
            "augment": recipe.augment
            and recipe.augment.model_copy(
                update={
                    name: absolute(getattr(recipe.augment, name))
                    for name in ("model", "vectors", "vector_words", "stop_words")
                }
            ),
            "finetune": recipe.finetune
            and recipe.finetune.model_copy(update={"model": absolute(recipe.finetune.model)}),
            "soft_labels": recipe.soft_labels
            and recipe.soft_labels.model_copy(
                update={"predictions": absolute(recipe.soft_labels.predictions)}
            ),
            "data": recipe.data.model_copy(update=places),
            "corpus": recipe.corpus
            and recipe.corpus.model_copy(
                update={
                    "sources": recipe.corpus.sources and all_absolute(recipe.corpus.sources),
                    "tokenizer": absolute(recipe.corpus.tokenizer),
                }
            ),
            "mine": recipe.mine
            and recipe.mine.model_copy(
                update={
                    "sources": recipe.mine.sources and all_absolute(recipe.mine.sources),
                    "exclude": all_absolute(recipe.mine.exclude),
                    "encoder": absolute(recipe.mine.encoder),
                }
            ),
            "general": recipe.general
            and recipe.general.model_copy(update={"corpus": absolute(recipe.general.corpus)}),
        }
    )


def _absolute_pattern(source: str) -> str:
    is_local = "://" not in source and is_pattern(source)
    return str(Path(source).expanduser().absolute()) if is_local else source


def with_precision(recipe: Recipe) -> Recipe:
    """Return the recipe with the precision of its masked language model resolved."""
    from understudy.training.precision import hardware_precision  # imports torch

    settings = recipe.augment
    assert settings is not None
    if settings.bf16 is not None:
        return recipe
    name = hardware_precision().name if recipe.precision == "auto" else recipe.precision
    return recipe.model_copy(update={"augment": settings.model_copy(update={"bf16": name == "bf16"})})
