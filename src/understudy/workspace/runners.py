"""Open a model in the process that runs it, importing only what that model needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.timing.measure import Run


def open_folder(folder: str, kind_name: str | None, threads: int) -> Run:
    """Open a model's folder in torch, in fp32, without a head if no kind is given."""
    from understudy.kinds import get_kind
    from understudy.models.pretrained import read_model

    kind = get_kind(kind_name) if kind_name is not None else None
    import torch
    import transformers

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if kind is None:
        model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32)
    else:
        config = transformers.AutoConfig.from_pretrained(folder)
        kind.configure(config, None)
        model = read_model(kind, folder, config, dtype=torch.float32)
    model.eval()

    def run(arrays):  # type: ignore[no-untyped-def]  # as Run
        with torch.inference_mode():
            inputs = {name: torch.from_numpy(value) for name, value in arrays.items()}
            if kind is not None:
                inputs = dict(zip(inputs, kind.separate_texts(tuple(inputs.values())), strict=True))
            model(**inputs)

    return run


def open_file_alone(path: str, inputs: tuple[str, ...], outputs: tuple[str, ...], threads: int) -> Run:
    """Open an ONNX file that belongs to no artifact."""
    from understudy.artifacts.session import open_file

    return open_file(Path(path), "onnxruntime", inputs, outputs, threads=threads)


def open_artifact(folder: str, model: str, threads: int) -> Run:
    """Open one of an artifact's models."""
    from understudy.artifacts.artifact import read_artifact
    from understudy.artifacts.session import open_model

    artifact = read_artifact(Path(folder))
    return open_model(Path(folder), artifact, artifact.choose(model), threads=threads)
