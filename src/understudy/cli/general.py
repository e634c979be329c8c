"""`understudy general`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from understudy.cli.options import JsonOption, OutputOption, OverwriteOption, RecipeOption, SetOption


def general_command(
    output_dir: OutputOption,
    teacher: Annotated[
        str | None, typer.Argument(help="Pretrained encoder: folder or hub name.", show_default=False)
    ] = None,
    corpus: Annotated[str | None, typer.Option("--corpus", help="Folder that `corpus` wrote.")] = None,
    student: Annotated[
        str | None,
        typer.Option(
            "--student",
            help="Shape (tinybert-4l-312d, 6l-384d), or a saved encoder to continue from. Several, separated "
            "by commas, share the teacher's forward passes.",
        ),
    ] = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Distil a pretrained teacher into a general student, a starting point for every task.

    `understudy general bert-base-uncased --corpus corpora/wiki --output-dir students/general`

    On several devices, with every batch split among them:

    `torchrun --nproc-per-node 8 -m understudy general bert-base-uncased --corpus corpora/wiki …`

    Then `understudy distill TEACHER --student students/general/student …`. After an interruption, run the
    same command again to resume at the next block.
    """
    from understudy.cli.checks import check_early
    from understudy.distillation.recipes import general_recipe
    from understudy.models.settings import split_students

    given: dict[str, Any] = {"corpus": corpus, "recipe": recipe, "settings": settings or ()}
    students = split_students(student)
    may_be_finished = overwrite or len(students) > 1
    for name, shape in students.items():
        build = partial(general_recipe, teacher, student=shape, **given)
        check_early(build, output_dir / name, may_be_finished=may_be_finished)

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_general
    from understudy.stages.general import general, general_students
    from understudy.workspace.result import StageResult, join_results

    given |= {"output_dir": output_dir, "overwrite": overwrite}
    with people_on_stderr(), say_how_to_continue("from the last checkpoint, one every save_steps"):
        if len(students) > 1:
            several = general_students(teacher, [str(one) for one in students.values()], **given)
            result: StageResult = join_results(several, output_dir)
        else:
            several = {"": general(teacher, student=student, **given)}
            result = several[""]
        for one in several.values():
            print_general(one)
    if as_json:
        print_json(result)
