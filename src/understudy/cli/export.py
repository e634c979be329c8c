"""`understudy export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from understudy.cli.options import (
    DataOption,
    JsonOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    TaskOption,
)


def export_command(
    student: Annotated[str, typer.Argument(help="Fine-tuned model: folder or hub name.", show_default=False)],
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", help="Folder for the artifact.", show_default=False)
    ] = None,
    container: Annotated[
        Path | None,
        typer.Option("--container", help="Folder for a Dockerfile, compose and Kubernetes files."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0.0, help="Points that int8 or int4 may lose on a dev set.")
    ] = 0.5,
    int8: Annotated[bool, typer.Option("--int8/--no-int8", metavar="", help="Quantise to int8.")] = True,
    int4: Annotated[
        Literal["embeddings", "all"] | None,
        typer.Option("--int4", help="Also write a smaller file, with 4-bit weights.", show_default=False),
    ] = None,
    openvino: Annotated[
        bool, typer.Option("--openvino", metavar="", help="Also write int8 for OpenVINO (extra `openvino`).")
    ] = False,
    speed: Annotated[
        bool, typer.Option("--speed/--no-speed", metavar="", help="Measure speed for the model card.")
    ] = True,
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

    `understudy export artifacts/mrpc --container docker/` writes the files for a container that serves it.

    The fp32 file must reproduce torch's outputs, and int8 must keep the score on the dev set. If int8 does
    not, the parts that it hurts most stay in fp32; if that does not help, nothing is written. The folder
    contains everything that predictions need, and a model card.
    """
    from understudy.artifacts.artifact import is_artifact, refuse_artifact
    from understudy.cli.checks import check_scoring
    from understudy.errors import RecipeError
    from understudy.serve.container import check_container_folder
    from understudy.workspace.folders import check_artifact_folder

    if container is not None and is_artifact(student):
        if output_dir is not None:
            raise RecipeError(f"{student} is an artifact already: leave --output-dir out.")
        _write_container(Path(student), container)
        return
    if output_dir is None:
        raise RecipeError("--output-dir must be given: the folder that gets the artifact.")
    check_artifact_folder(output_dir.expanduser(), overwrite=overwrite)
    if container is not None:
        check_container_folder(container.expanduser())

    given: dict[str, Any] = {"task": task, "data": data, "recipe": recipe, "settings": settings or ()}
    refuse_artifact(student)
    check_scoring(student, **given)

    from understudy.cli.console import people_on_stderr, print_json
    from understudy.cli.speed_summary import print_exported
    from understudy.stages.export import export

    with people_on_stderr():
        result = export(
            student,
            output_dir=output_dir,
            **given,
            tolerance=tolerance,
            int8=int8,
            int4=int4,
            openvino=openvino,
            speed=speed,
            overwrite=overwrite,
        )
        print_exported(result)
    if container is not None:
        _write_container(output_dir, container)
    if as_json:
        print_json(result)


def _write_container(artifact: Path, folder: Path) -> None:
    from understudy.serve.container import write_container

    files = write_container(artifact, folder)
    typer.echo(
        f"{folder}: {', '.join(files)}. Build it: docker build --tag student {folder}\n"
        f"If this version of understudy is not published, copy its wheel to {folder / 'wheels'} first.",
        err=True,
    )
