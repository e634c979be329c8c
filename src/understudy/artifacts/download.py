"""Find an artifact: a folder, or a repository on the hub, from which only the needed files are downloaded.

huggingface_hub is imported only if there is something to download, since a folder must open quickly.
"""

from __future__ import annotations

from pathlib import Path

from understudy.artifacts.artifact import ARTIFACT, TOKENIZER, read_artifact
from understudy.errors import ModelError
from understudy.hub import check_model_name, is_hub_name, split_revision


def find_artifact(name: str, revision: str | None, model: str | None) -> Path:
    """Return the folder of an artifact, downloading it if the name is a repository's.

    Args:
        name: a folder, or `user/name` or `user/name@revision` on the hub.
        model: the form that will be opened; the others are not downloaded.
    """
    folder = Path(name).expanduser()
    if folder.exists():
        if revision is not None:
            raise ModelError(f"{name} is a folder here, which has no revisions; got revision={revision!r}.")
        return folder
    check_model_name(name, "the artifact")
    repo, named = split_revision(name)
    if not is_hub_name(repo):
        raise ModelError(
            f"{name} is neither a folder here nor a repository's name (user/name). Give a folder that "
            "understudy export or run wrote, or a repository that understudy push filled."
        )
    return _download(repo, revision or named, model)


def _download(repo: str, revision: str | None, model: str | None) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        folder = Path(hf_hub_download(repo, ARTIFACT, revision=revision)).parent
        artifact = read_artifact(folder)
        chosen = artifact.choose(model).file
        # An OpenVINO model has a second file with its weights.
        needed = [
            name for name in artifact.files if Path(name).with_suffix("") == Path(chosen).with_suffix("")
        ]
        for file in (TOKENIZER, *needed):
            # The folder is named after the commit, so all files come from the same one.
            hf_hub_download(repo, file, revision=folder.name)
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"{repo} is not a folder here and cannot be downloaded from the hub: {error}\nCheck the name and "
            "the network, or give the folder of an artifact."
        ) from error
    except EntryNotFoundError:
        raise ModelError(_no_artifact(repo, revision)) from None
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{repo} is not a folder here, and the hub refuses it: {error}\nCheck the name and the revision; "
            "a private repository needs `hf auth login` or HF_TOKEN."
        ) from error
    return folder


def _no_artifact(repo: str, revision: str | None) -> str:
    """Explain what a repository without an artifact holds instead."""
    from huggingface_hub import HfApi

    found = HfApi().list_repo_files(repo, revision=revision)
    if "config.json" in found and any(name.endswith((".safetensors", ".bin")) for name in found):
        return (
            f"{repo} is a model for transformers, not an artifact: it has no {ARTIFACT}. Export it first: "
            f"understudy export {repo} --task … --data … --output-dir ARTIFACT"
        )
    shown = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
    return f"{repo} is not an artifact: it has no {ARTIFACT}; it has {shown or 'no files'}."
