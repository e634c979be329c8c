"""`understudy distill`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    DevOption,
    JsonOption,
    LabelOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    SplitOption,
    TargetOption,
    TaskOption,
    TextOption,
    TextPairOption,
    TrainOption,
    UnlabelledOption,
)


def distill_command(
    output_dir: OutputOption,
    teacher: Annotated[
        str | None, typer.Argument(help="Fine-tuned model: folder or hub name.", show_default=False)
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(
            "--student",
            help="Shape (tinybert-4l-312d, 6l-384d), or a saved encoder to start from. Several, separated by "
            "commas, share the teacher's forward passes.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="tinybert, joint, soft-labels or patient. Defaults to the recipe's, or tinybert.",
            show_default=False,
        ),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option("--predictions", help="Parquet file of any model's predictions, in place of a teacher."),
    ] = None,
    target: TargetOption = None,
    task: TaskOption = None,
    data: DataOption = None,
    train: TrainOption = None,
    dev: DevOption = None,
    split: SplitOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    unlabelled: UnlabelledOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Distil a fine-tuned teacher into a small student.

    `understudy distill teachers/mrpc --student tinybert-4l-312d --output-dir students/mrpc`

    A teacher written by `finetune` knows its task and data. For any other, specify them:

    `understudy distill TEACHER --task mrpc --data nyu-mll/glue --output-dir students/mrpc`

    Instead of a teacher, use a file of any model's predictions for the training rows:

    `understudy distill --method soft-labels --predictions FILE --set student.source=ENCODER --task sst2 …`

    To learn from text without labels too, add it:

    `understudy distill teachers/sst2 --unlabelled "reviews/*.txt" --output-dir students/sst2`

    Several students at once, each in a folder named after it, sharing the teacher's forward passes:

    `understudy distill teachers/sst2 --student 6l-384d,4l-312d,2l-240d --output-dir students/sst2`

    The student is saved in `student/` and loads with plain transformers. After an interruption, run the same
    command again to resume.
    """
    from understudy.cli.checks import check_early, check_rows_early
    from understudy.distillation.recipes import distill_recipe
    from understudy.models.settings import split_students
    from understudy.recipe.inputs import check_has_teacher
    from understudy.recipe.load import file_settings, parse_settings

    overrides = {
        **file_settings(
            train=train,
            dev=dev,
            split=split,
            text=text,
            text_pair=text_pair,
            label=label,
            unlabelled=unlabelled,
        ),
        **parse_settings(settings or ()),
    }
    if target is not None:
        overrides = {"student.target": target, **overrides}
    given: dict[str, Any] = {"method": method, "predictions": predictions}
    given |= {"task": task, "data": data, "recipe": recipe, "settings": overrides}
    students = split_students(student)
    may_be_finished = overwrite or len(students) > 1
    for name, one in students.items():
        build = partial(distill_recipe, teacher, student=one, **given)
        built = check_early(build, output_dir / name, may_be_finished=may_be_finished)
        check_has_teacher(built)
    check_rows_early(built, built.teacher)

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_scores, print_students
    from understudy.pipeline.student import distill, distill_students
    from understudy.workspace.result import StageResult, join_results

    given |= {"output_dir": output_dir, "overwrite": overwrite}
    with people_on_stderr(), say_how_to_continue():
        if len(students) > 1:
            several = distill_students(teacher, [str(one) for one in students.values()], **given)
            print_students(several)
            result: StageResult = join_results(several, output_dir)
        else:
            result = distill(teacher, student=student, **given)
            print_scores(result)
    if as_json:
        print_json(result)
