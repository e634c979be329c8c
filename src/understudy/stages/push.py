"""Upload an artifact or a student to the hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from understudy.artifacts.artifact import ARTIFACT
from understudy.artifacts.card import THIS_MODEL
from understudy.artifacts.upload import (
    Content,
    Pushed,
    artifact_content,
    check_destination,
    refuse_local_paths,
    upload,
)
from understudy.errors import OutputError


def push(
    folder: str | Path,
    repo: str,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
) -> Pushed:
    """Upload an artifact or a student to a model repository on the hub, with its model card.

    Only the model, its tokenizer, their configuration and the card are uploaded, in one commit. Other files
    in the repository are left unchanged.

    Args:
        folder: an artifact that `export` or `run` wrote, or a student: a distillation's folder, or a folder
            with a model and its README.md.
        repo: the repository, `user/name`; it is created if it does not exist.
        private: create a private repository.
        revision: a branch, created from `main` if it does not exist. Defaults to `main`.
        message: the commit's message.

    Examples:
        >>> understudy.push("runs/reviews/artifact", "ada/reviews-4l").files  # doctest: +SKIP
        ['README.md', 'artifact.json', 'onnx/model.onnx', …]
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise OutputError(f"{path} is not a folder. Give an artifact, or the folder of a student.")
    check_destination(repo)
    content = _read(path)
    content = replace(content, card=content.card.replace(THIS_MODEL, repo))
    refuse_local_paths(content)
    return upload(content, repo, private=private, revision=revision, message=message)


def _read(folder: Path) -> Content:
    if (folder / ARTIFACT).is_file():
        return artifact_content(folder)
    from understudy.workspace.sharing import student_content  # needs torch, which an artifact does not

    return student_content(folder)
