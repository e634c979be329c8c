"""Upload an artifact or a student to the hub: a list of files, checked before anything is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT, CARD, TOKENIZER, checked_file, read_artifact
from understudy.errors import HubError, OutputError
from understudy.hub import is_hub_name


@dataclass(frozen=True)
class Content:
    """The part of a folder that is uploaded.

    Attributes:
        kind: `artifact` or `student`.
        card: the text of README.md.
        files: all other files, by their path in the repository.
    """

    kind: str
    card: str
    files: Mapping[str, Path]


@dataclass(frozen=True)
class Pushed:
    """A folder that was uploaded.

    Attributes:
        kind: `artifact` or `student`.
        repo: the repository, `user/name`.
        revision: the branch.
        commit: the hash of the commit; the last one if nothing has changed since.
        files: paths in the repository.
        bytes: the size of these files.
        has_license: whether the model card names a licence.
    """

    kind: str
    repo: str
    url: str
    revision: str
    commit: str
    files: list[str]
    bytes: int
    has_license: bool


def artifact_content(folder: Path) -> Content:
    """Return the part of an artifact to upload: its card, its artifact.json, and the files listed there."""
    artifact, card = read_artifact(folder), folder / CARD
    if not card.is_file():
        raise OutputError(f"{folder} has no {CARD}, its model card. Export the student again, or write one.")
    files = {name: checked_file(folder, artifact, name) for name in artifact.files}
    return Content("artifact", card.read_text("utf-8"), {ARTIFACT: folder / ARTIFACT, **files})


def check_destination(repo: str) -> None:
    """Refuse a push that cannot work, before anything is sent."""
    if not is_hub_name(repo):
        raise HubError(f"the repository must be user/name, e.g. ada/reviews-4l; got {repo!r}.")
    from huggingface_hub import get_token, is_offline_mode

    if is_offline_mode():
        raise HubError("HF_HUB_OFFLINE is set, so nothing can be uploaded. Unset it and push again.")
    if get_token() is None:
        raise HubError("there is no token for the hub. Run `hf auth login`, or set HF_TOKEN.")


def refuse_local_paths(content: Content) -> None:
    """Refuse files that name a folder of this machine: paths in JSON, the home folder in the card."""
    home = f"{Path.home()}/"
    found = [(CARD, home)] if len(Path.home().parts) > 1 and home in content.card else []
    for name, file in content.files.items():
        if name.endswith(".json") and name != TOKENIZER:  # its strings are tokens
            values = _strings(json.loads(file.read_text("utf-8")))
            found += [(name, value) for value in values if _LOCAL_PATH.match(value)]
    if found:
        name, value = found[0]
        raise OutputError(
            f"{name} has a path of this machine, which should not be uploaded: {value}. Remove it from the "
            "file and push again."
        )


_LOCAL_PATH = re.compile(r"(/[^/\s]+/|~/|[A-Za-z]:\\).", re.ASCII)


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for name, value in content.items():
            if name not in ("id2label", "label2id", "labels"):  # a label may look like a path
                yield from _strings(value)
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value)


def upload(
    content: Content, repo: str, *, private: bool, revision: str | None, message: str | None
) -> Pushed:
    """Upload a folder's content in one commit to a model repository, which is created if needed."""
    from huggingface_hub import CommitOperationAdd, HfApi, ModelCard

    try:
        metadata = ModelCard(content.card).data
    except (ValueError, TypeError) as error:
        raise OutputError(f"the metadata at the top of {CARD} cannot be read: {error}. Fix it.") from None
    api = HfApi(library_name="understudy")
    try:
        api.create_repo(repo, private=private or None, exist_ok=True)
        is_private = api.model_info(repo).private if private else True
    except Exception as error:  # errors of the client and its HTTP library have no common base class
        raise HubError(f"{repo} cannot be created or opened on the hub: {error}") from error
    if not is_private:
        raise HubError(
            f"{repo} exists and is public, so --private has no effect. Make it private in its settings "
            "on the hub, or push to another name."
        )
    card = content.card.encode()
    operations = [CommitOperationAdd(CARD, card)]
    operations += [CommitOperationAdd(name, str(file)) for name, file in content.files.items()]
    try:
        if revision is not None:
            api.create_branch(repo, branch=revision, exist_ok=True)
        message = message or f"Upload {content.kind} with understudy"
        done = api.create_commit(repo, operations, commit_message=message, revision=revision)
    except Exception as error:
        raise HubError(f"{repo} could not be uploaded: {error}") from error
    return Pushed(
        kind=content.kind,
        repo=repo,
        url=f"{api.endpoint}/{repo}" + (f"/tree/{revision}" if revision else ""),
        revision=revision or "main",
        commit=done.oid,
        files=[CARD, *content.files],
        bytes=len(card) + sum(file.stat().st_size for file in content.files.values()),
        has_license=metadata.get("license") is not None,
    )
