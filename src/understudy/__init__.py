"""understudy: distil a large encoder into a small one."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.kinds import get_kind, register_kind
    from understudy.models.families import Family, register_family
    from understudy.pipeline.ablate import ablate
    from understudy.pipeline.run import run
    from understudy.pipeline.student import distill, distill_students
    from understudy.pipeline.students import run_students
    from understudy.predictor import Predictor
    from understudy.recipe.load import load_recipe
    from understudy.recipe.recipe import Recipe
    from understudy.stages.augment import augment
    from understudy.stages.bench import bench
    from understudy.stages.corpus import corpus
    from understudy.stages.evaluate import evaluate
    from understudy.stages.export import export
    from understudy.stages.finetune import finetune
    from understudy.stages.general import general, general_students
    from understudy.stages.mine import mine
    from understudy.stages.plan import plan
    from understudy.stages.push import push
    from understudy.training.average import WeightAverage
    from understudy.training.objectives import (
        FunctionObjectives,
        JointObjectives,
        Objectives,
        PatientObjectives,
        PredictionObjectives,
        TinyBertObjectives,
    )
    from understudy.training.trainer import DistillationTrainer

__version__ = version("understudy-distill")
__all__ = [
    "DistillationTrainer",
    "Family",
    "FunctionObjectives",
    "JointObjectives",
    "Objectives",
    "PatientObjectives",
    "PredictionObjectives",
    "Predictor",
    "Recipe",
    "TinyBertObjectives",
    "WeightAverage",
    "ablate",
    "augment",
    "bench",
    "corpus",
    "distill",
    "distill_students",
    "evaluate",
    "export",
    "finetune",
    "general",
    "general_students",
    "get_kind",
    "load_recipe",
    "mine",
    "plan",
    "push",
    "register_family",
    "register_kind",
    "run",
    "run_students",
]

# Loaded on first use: importing understudy must not import torch.
_HOMES = {
    "DistillationTrainer": "understudy.training.trainer",
    "FunctionObjectives": "understudy.training.objectives",
    "JointObjectives": "understudy.training.objectives",
    "Objectives": "understudy.training.objectives",
    "PatientObjectives": "understudy.training.objectives",
    "PredictionObjectives": "understudy.training.objectives",
    "TinyBertObjectives": "understudy.training.objectives",
    "Predictor": "understudy.predictor",
    "get_kind": "understudy.kinds",
    "register_kind": "understudy.kinds",
    "Family": "understudy.models.families",
    "register_family": "understudy.models.families",
    "Recipe": "understudy.recipe.recipe",
    "WeightAverage": "understudy.training.average",
    "ablate": "understudy.pipeline.ablate",
    "augment": "understudy.stages.augment",
    "bench": "understudy.stages.bench",
    "corpus": "understudy.stages.corpus",
    "distill": "understudy.pipeline.student",
    "distill_students": "understudy.pipeline.student",
    "evaluate": "understudy.stages.evaluate",
    "export": "understudy.stages.export",
    "finetune": "understudy.stages.finetune",
    "general": "understudy.stages.general",
    "general_students": "understudy.stages.general",
    "load_recipe": "understudy.recipe.load",
    "mine": "understudy.stages.mine",
    "plan": "understudy.stages.plan",
    "push": "understudy.stages.push",
    "run": "understudy.pipeline.run",
    "run_students": "understudy.pipeline.students",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        try:
            return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            from understudy.errors import MissingExtraError

            raise MissingExtraError.of(error) from None
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
