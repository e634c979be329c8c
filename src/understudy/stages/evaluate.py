"""Score a model on a task, alone or against another model on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import split_form
from understudy.data.load import TaskData, announce, load_data
from understudy.data.settings import without_unlabelled
from understudy.data.sources import dev_splits
from understudy.errors import OutputError
from understudy.evaluation.compare import compare
from understudy.evaluation.score import Score, score_content, score_logits
from understudy.models.heads import model_labels
from understudy.models.pretrained import load_config
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import RESULT, remove_leftovers
from understudy.workspace.hashes import hash_model, versions
from understudy.workspace.lock import only_process_in
from understudy.workspace.models import Scorer, open_scorer, refuse_unfinished
from understudy.workspace.predictions import PREDICTIONS, write_predictions
from understudy.workspace.recipes import evaluation_recipe, scored_model
from understudy.workspace.result import data_content, write_result
from understudy.workspace.results import EvaluateResult
from understudy.workspace.splits import split_of


def evaluate(
    model: str | Path,
    *,
    task: str | None = None,
    data: str | Path | None = None,
    split: str | None = None,
    against: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    batch_size: int = 64,
    output_dir: str | Path | None = None,
) -> EvaluateResult:
    """Score a fine-tuned model with the task's official metrics and 95 % intervals.

    Args:
        model: a folder or a hub name. A folder written by `finetune`, `distill` or `run` knows its task and
            data; for a run, its artifact is scored. For any other artifact, rows must be given.
            `ARTIFACT:fp32` names a form.
        split: the split to score. Defaults to the task's development sets.
        against: another model, scored on the same rows; differences come with paired intervals.
        output_dir: if given, gets result.json, and predictions.jsonl with the prediction for every row.

    Examples:
        >>> understudy.evaluate("student", against="teacher").content["difference"]  # doctest: +SKIP
        {'dev': {'f1': {'value': -0.012, 'low': -0.031, 'high': 0.006}}}
    """
    model = scored_model(model)
    against = scored_model(against) if against is not None else None
    folder = Path(output_dir) if output_dir is not None else None
    with only_process_in(folder):
        if folder is not None and (folder / RESULT).exists():
            raise OutputError(f"{folder} holds a result already. Use another --output-dir.")
        run = evaluation_recipe(model, task=task, data=data, recipe=recipe, settings=settings)
        run = run.model_copy(update={"data": without_unlabelled(run.data)})  # only labelled rows are scored
        splits = (split,) if split else dev_splits(run.task_definition, run.data)
        refuse_unfinished(model)
        loaded = load_data(
            run.task_definition,
            run.data,
            splits,
            labels=model_labels(load_config(split_form(model)[0]), run.task_definition),
        )
        announce(loaded)
        # Load both models before running either, so that any problem shows early.
        names = [str(model)] + ([str(against)] if against is not None else [])
        models = [open_scorer(name, run, loaded, batch_size=batch_size) for name in names]
        scores, *others = [_score(one, run, loaded) for one in models]
        content: dict[str, Any] = {
            "stage": "evaluate",
            "task": run.task,
            "model": str(model),
            **score_content(scores),
            **data_content(loaded),
            "hashes": {"model": hash_model(str(model)), **loaded.hashes},
            "versions": versions(),
        }
        if others:
            other = others[0]
            content["against"] = {"model": names[1], **score_content(other)}
            content["hashes"]["against"] = hash_model(names[1])
            content |= compare(run.task_definition, scores, other)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            label_field = run.task_definition.kind.label_field
            write_predictions(
                folder / PREDICTIONS, loaded, label_field, scores, others[0] if others else None
            )
            write_result(folder, content)
            remove_leftovers(folder)
        return EvaluateResult(folder, content)


def _score(model: Scorer, run: Recipe, data: TaskData) -> dict[str, Score]:
    scores = {}
    for name, rows in data.splits.items():
        split = split_of(run, rows, model.tokenizer)
        scores[name] = score_logits(split, model.logits(split.encoded))
    return scores
