"""`understudy export`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    JsonOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    TaskOption,
)


def export_command(
    student: Annotated[str, typer.Argument(help="Fine-tuned model: folder or hub name.", show_default=False)],
    output_dir: OutputOption,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0.0, help="Points that int8 may lose on a dev set.")
    ] = 0.5,
    int8: Annotated[bool, typer.Option("--int8/--no-int8", help="Quantise to int8.")] = True,
    openvino: Annotated[
        bool, typer.Option("--openvino", help="Write int8 for OpenVINO too (extra `openvino`).")
    ] = False,
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Time it, for the card.")] = True,
    task: TaskOption = None,
    data: DataOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Export a student to ONNX files in fp32 and int8 that have been run and scored.

    `understudy export students/mrpc --output-dir artifacts/mrpc`

    `understudy predict artifacts/mrpc "A cat sleeps." "There is a sleeping cat."`

    The fp32 file must reproduce torch's outputs, and int8 must keep the score on the dev set; otherwise the
    parts that it hurts most stay in fp32, or nothing is written. The folder holds everything that predictions
    need, and a model card.
    """
    from understudy.cli.checks import check_scoring

    given: dict[str, Any] = {"task": task, "data": data, "recipe": recipe, "settings": settings or ()}
    check_scoring(student, **given)

    from understudy.cli.console import people_on_stderr, print_json
    from understudy.cli.summaries import print_exported
    from understudy.stages.export import export

    with people_on_stderr():
        result = export(
            student,
            output_dir=output_dir,
            **given,
            tolerance=tolerance,
            int8=int8,
            openvino=openvino,
            speed=speed,
            overwrite=overwrite,
        )
        print_exported(result)
    if as_json:
        print_json(result)
