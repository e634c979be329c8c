"""Run TinyBERT's ablations: its Tables 2, 3 and 4 with other teachers, tasks and seeds."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from understudy.distillation.recipes import distill_recipe
from understudy.errors import OutputError, RecipeError
from understudy.evaluation.bootstrap import Estimate, estimate_runs
from understudy.evaluation.metrics import Outcomes
from understudy.files import SEAL, is_whole_folder, seal_folder
from understudy.kinds.tasks import get_task
from understudy.models.families import own_sizes
from understudy.models.pretrained import load_config
from understudy.models.settings import STUDENT, teacher_inside
from understudy.pipeline.ablations import ABLATIONS, FULL, Ablation, AblationRow, check_tables
from understudy.recipe.load import apply_settings, load_recipe, parse_settings
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.report.charts import intervals
from understudy.stages.distill import distill_from_recipe
from understudy.workspace.folders import INTERMEDIATE, RECIPE, RESULT, TRAINING_FOLDER
from understudy.workspace.hashes import hash_model, versions
from understudy.workspace.lock import only_process_in
from understudy.workspace.recipes import saved_recipe
from understudy.workspace.result import read_outcomes, write_result
from understudy.workspace.results import AblateResult

logger = logging.getLogger(__name__)


def ablate(
    teachers: Sequence[str | Path],
    *,
    output_dir: str | Path,
    tables: Sequence[str] = tuple(ABLATIONS),
    student: str | None = None,
    augmented: str | Path | None = None,
    data: str | Path | None = None,
    recipe: str | Path = "desk-ablate",
    seeds: Sequence[int] = (1, 2, 3),
    settings: Sequence[str] | Mapping[str, Any] = (),
) -> AblateResult:
    """Run TinyBERT with one of its parts left out at a time, with several seeds.

    All tables share the full run, variants that differ only after the intermediate stage share that stage,
    and all runs share the teacher's outputs. A finished run is not repeated.

    Args:
        teachers: fine-tuned models, one for each task.
        tables: any of `procedures` (Table 2), `objectives` (3) and `maps` (4).
        student: a general student to start from; needed for `procedures`, whose row `w/o GD` does without it.
        augmented: a folder that holds a folder of augmented rows for each task, named after the task; needed
            for `procedures`, whose row `w/o DA` does without them.
        output_dir: gets a folder for every run, result.json, table.md and a picture of each table.

    Examples:
        >>> understudy.ablate(                                     # doctest: +SKIP
        ...     ["teachers/mrpc"], tables=["maps"], student="students/general/student",
        ...     output_dir="ablations",
        ... ).rows[0].mean
        Estimate(value=…, low=…, high=…)
    """
    check_tables(tables, student, augmented)
    folder = Path(output_dir).expanduser().resolve()
    chosen = parse_settings(settings)
    recipes = [_full_recipe(one, student, augmented, data, recipe, chosen) for one in teachers]
    for full in recipes:
        _check_full(full, tables)
    twice = [task for task, count in Counter(full.task for full in recipes).items() if count > 1]
    if twice:
        raise RecipeError(
            f"two of the teachers are of the task {twice[0]}. Give each an ablation of its own."
        )
    with only_process_in(folder):
        outcomes: dict[tuple[str, str, int], Outcomes] = {}
        against: dict[str, dict[str, Any]] = {}
        wanted = [AblationRow(FULL, {}), *(one for table in tables for one in ABLATIONS[table].variants)]
        for seed in seeds:
            for full in (one.model_copy(update={"seed": seed}) for one in recipes):
                for variant in wanted:
                    place = folder / str(full.task) / f"{_slug(variant.name)}-{seed}"
                    result = _finish(full, variant, place, folder / str(full.task) / f"{_slug(FULL)}-{seed}")
                    split = next(iter(result["scores"]))
                    outcomes[str(full.task), variant.name, seed] = read_outcomes(place, "student", split)
                    against[str(full.task)] = result["against"]["scores"]
        content: dict[str, Any] = {
            "stage": "ablate",
            "tables": {name: _table(ABLATIONS[name], outcomes, against, seeds) for name in tables},
            "seeds": list(seeds),
            "versions": versions(),
        }
        write_result(folder, content)
        for name in tables:
            _draw(content["tables"][name], folder / f"{name}.svg")
        (folder / "table.md").write_text(as_markdown(content), "utf-8")
        return AblateResult(folder, content)


def _full_recipe(
    teacher: str | Path,
    student: str | None,
    augmented: str | Path | None,
    data: str | Path | None,
    recipe: str | Path,
    settings: Mapping[str, Any],
) -> Recipe:
    """Return the recipe of one teacher's full run, without its seed."""
    teacher = teacher_inside(teacher)
    saved = saved_recipe(teacher)
    task = load_recipe(saved if saved is not None else recipe).task
    own: dict[str, Any] = {"task": task, **settings}
    if augmented is not None:
        own["data.augmented"] = str(Path(augmented) / str(task))
    return resolve_paths(
        distill_recipe(
            teacher,
            student=student,
            method="tinybert",
            predictions=None,
            task=None,
            data=data,
            recipe=recipe,
            settings=own,
        )
    )


def _finish(full: Recipe, variant: AblationRow, output_dir: Path, full_dir: Path) -> dict[str, Any]:
    """Return the result of a variant's run, running it first if needed, or if its files are damaged."""
    file, seal, wanted = output_dir / RESULT, output_dir / SEAL, variant_recipe(full, variant, full_dir)
    if file.is_file() and seal.is_file() and not is_whole_folder(output_dir):
        logger.warning("%s is not what was written, so it is made again.", output_dir)
        file.unlink()
        seal.unlink()
    if not file.is_file():
        logger.info("%s: %s", full.task, output_dir.name)
        distill_from_recipe(wanted, output_dir)
    content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    same = load_recipe(output_dir / RECIPE) == resolve_paths(wanted)
    if not same or content["hashes"]["teacher"] != hash_model(str(full.teacher)):
        raise OutputError(
            f"{output_dir} holds a run with other settings or of another teacher. Use another --output-dir."
        )
    if not seal.is_file():
        seal_folder(output_dir, without=(TRAINING_FOLDER,))
    return content


def _check_full(full: Recipe, tables: Sequence[str]) -> None:
    """Refuse a recipe that does not allow every variant, before the first run."""
    if full.intermediate is None or full.prediction is None:
        raise RecipeError("the recipe of an ablation must have both blocks, intermediate and prediction.")
    if full.prediction.search:
        raise RecipeError(
            "an ablation compares runs of the same settings: take the search out with "
            "--set prediction.search=null, and set what it would find in prediction.training."
        )
    if full.normalization != "real":
        raise RecipeError(
            "normalization: padded has no meaning for variants that learn from labels. Leave it out: --set "
            "normalization=null."
        )
    for name in ("target", "vocabulary"):
        if getattr(full.student, name) is not None:
            raise RecipeError(
                f"the rows of an ablation differ in one setting each, and student.{name} would make them "
                "differ in the student too. Leave it out."
            )
    units = [
        {"max_steps", "num_train_epochs"} & set(one.training) for one in (full.intermediate, full.prediction)
    ]
    if units[0] != units[1] or not units[0]:
        raise RecipeError(
            "intermediate.training and prediction.training must both have max_steps or both num_train_epochs."
        )
    if "procedures" in tables and full.student.model is None:
        raise RecipeError("--student must be a saved general student: the row w/o GD leaves it out.")


def variant_recipe(full: Recipe, variant: AblationRow, full_dir: Path) -> Recipe:
    """Return the full run's recipe without the part that a variant leaves out."""
    values = full.model_dump(exclude_defaults=True)
    changed = dict(variant.settings)
    if changed.get("student.init") == "random" and full.student.model is not None:
        sizes = own_sizes(load_config(full.student.model))
        changed |= {f"student.{name}": size for name, size in sizes.items()}
    if variant.labels is not None:
        intermediate, prediction = (values.pop(name) for name in ("intermediate", "prediction"))
        training = dict(prediction["training"])
        if variant.labels == "train":
            # Footnote 10: cross-entropy with the labels of the original training set.
            changed |= {"data.augmented": None, "student": {"model": str(full_dir / INTERMEDIATE / STUDENT)}}
        else:
            training |= _both(intermediate["training"], training)
        values |= {"method": "soft-labels", "soft_labels": {"alpha": 0.0, "training": training}}
        changed |= {"data.unlabelled": None, "data.labelled_share": None}  # labels alone cannot use them
    return Recipe.from_mapping(apply_settings(values, changed))


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training length of two stages together."""
    name = "max_steps" if "max_steps" in second else "num_train_epochs"
    return {name: first.get(name, 0) + second.get(name, 0)}


def _table(
    ablation: Ablation,
    outcomes: Mapping[tuple[str, str, int], Outcomes],
    teachers: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Build a table's rows and check the paper's orders, with intervals over rows and seeds."""

    def runs(task: str, variant: str) -> list[Outcomes]:
        return [outcomes[task, variant, seed] for seed in seeds]

    rows, claims = [], []
    for task, scores in teachers.items():
        name = next(iter(next(iter(scores.values()))))
        metric = get_task(task).kind.metric(name)
        for variant in (FULL, *(one.name for one in ablation.variants)):
            found = runs(task, variant)
            mean = estimate_runs(metric, found)
            rows.append(
                {
                    "task": task,
                    "variant": variant,
                    "metric": name,
                    "seeds": [metric(one) for one in found],
                    "mean": mean.value,
                    "low": mean.low,
                    "high": mean.high,
                }
            )
        for claim in ablation.claims:
            above, below = runs(task, claim.above), runs(task, claim.below)
            difference = estimate_runs(metric, above, below)
            claims.append(
                {
                    "task": task,
                    "claim": f"{claim.above} > {claim.below}",
                    "difference": asdict(difference),
                    "verdict": verdict(difference),
                    "seeds": sum(
                        metric(one) > metric(other) for one, other in zip(above, below, strict=True)
                    ),
                }
            )
    return {
        "table": ablation.table,
        "title": ablation.title,
        "teachers": {task: next(iter(scores.values())) for task, scores in teachers.items()},
        "rows": rows,
        "claims": claims,
    }


def verdict(difference: Estimate) -> str:
    """Return whether an order is observed.

    >>> verdict(Estimate(0.02, 0.01, 0.03)), verdict(Estimate(0.02, -0.01, 0.05))
    ('seen', 'in the mean')
    """
    if difference.low > 0:
        return "seen"
    return "in the mean" if difference.value > 0 else "not seen"


def _draw(table: Mapping[str, Any], path: Path) -> None:
    rows = [(row["task"], row["variant"], row["mean"], row["low"], row["high"]) for row in table["rows"]]
    metrics = {row["task"]: row["metric"] for row in table["rows"]}
    figure = intervals(rows, metrics=metrics, title=f"{table['title']} ({table['table']})")
    figure.savefig(path, metadata={"Date": None})


def as_markdown(content: Mapping[str, Any]) -> str:
    """Format all tables as Markdown, with the verdicts on the paper's orders."""
    return "\n\n".join(_markdown(table, len(content["seeds"])) for table in content["tables"].values()) + "\n"


def _markdown(table: Mapping[str, Any], num_seeds: int) -> str:
    tasks = list(table["teachers"])
    metrics = {row["task"]: row["metric"] for row in table["rows"]}
    lines = [
        f"**{table['title']}** ({table['table']})",
        "",
        "| | " + " | ".join(f"{task} ({metrics[task]})" for task in tasks) + " |",
        "|---" * (len(tasks) + 1) + "|",
    ]
    teachers = [table["teachers"][task][metrics[task]]["value"] for task in tasks]
    lines.append("| teacher | " + " | ".join(f"{value:.3f}" for value in teachers) + " |")
    for name in dict.fromkeys(row["variant"] for row in table["rows"]):
        cells = [name]
        for task in tasks:
            row = next(one for one in table["rows"] if (one["task"], one["variant"]) == (task, name))
            seeds = ", ".join(f"{value:.3f}" for value in row["seeds"])
            cells.append(f"**{row['mean']:.3f}** ({row['low']:.3f}–{row['high']:.3f}): {seeds}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| the paper's order | " + " | ".join(tasks) + " |", "|---" * (len(tasks) + 1) + "|"]
    for claim in dict.fromkeys(one["claim"] for one in table["claims"]):
        cells = [claim]
        for task in tasks:
            one = next(one for one in table["claims"] if (one["task"], one["claim"]) == (task, claim))
            difference = one["difference"]
            figure = f"{difference['value']:+.3f}"
            if difference["low"] is not None:
                figure += f" ({difference['low']:+.3f} to {difference['high']:+.3f})"
            cells.append(f"{one['verdict']}: {figure}, {one['seeds']} of {num_seeds} seeds")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _slug(name: str) -> str:
    """
    >>> _slug("w/o GD")
    'without-gd'
    """
    return name.lower().replace("w/o ", "without-").replace(" ", "-")
