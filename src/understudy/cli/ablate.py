"""`understudy ablate`."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.options import DataOption, JsonOption, OutputOption, SetOption


def ablate_command(
    teachers: Annotated[
        list[str], typer.Argument(help="Fine-tuned teachers, one for each task.", show_default=False)
    ],
    output_dir: OutputOption,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", help="procedures, objectives or maps; may be repeated. All by default."),
    ] = None,
    student: Annotated[str | None, typer.Option("--student", help="General student to start from.")] = None,
    augmented: Annotated[
        str | None, typer.Option("--augmented", help="Folder with one folder of augmented rows per task.")
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, separated by commas.")] = "1,2,3",
    data: DataOption = None,
    recipe: Annotated[
        str, typer.Option("--recipe", help="Shipped recipe or YAML file of the full run.")
    ] = "desk-ablate",
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run TinyBERT without one of its parts at a time: the paper's Tables 2, 3 and 4.

    `understudy ablate teachers/mrpc --table maps --student students/general/student --output-dir ablations`

    All three tables on two tasks; the table of procedures also needs augmented rows:

    `understudy ablate teachers/mrpc teachers/stsb --student students/general/student
    --augmented augmented --output-dir ablations`

    Work that runs have in common is done once. After an interruption, run the same command again.
    """
    from understudy.errors import require
    from understudy.hub import check_model_name
    from understudy.pipeline.ablations import ABLATIONS, check_tables

    require("torch")
    if not all(part.strip().isdecimal() for part in seeds.split(",")):
        raise typer.BadParameter(
            f"--seeds must be whole numbers with commas between, e.g. 1,2,3; got {seeds!r}."
        )
    check_tables(tables or tuple(ABLATIONS), student, augmented)
    for teacher in teachers:
        check_model_name(teacher, "the teacher")

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_ablation
    from understudy.pipeline.ablate import ablate

    with people_on_stderr(), say_how_to_continue("with the run that it was in"):
        result = ablate(
            teachers,
            output_dir=output_dir,
            tables=tables or tuple(ABLATIONS),
            student=student,
            augmented=augmented,
            data=data,
            recipe=recipe,
            seeds=[int(part) for part in seeds.split(",")],
            settings=settings or (),
        )
        print_ablation(result)
    if as_json:
        print_json(result)
