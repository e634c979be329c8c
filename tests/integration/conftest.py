"""Artifacts of every kind, for servers and pages."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

# kinds.py and others are shared by the tests of this folder.
sys.path.insert(0, str(Path(__file__).parent))

from exported import fine_tune
from kinds import EXAMPLES

import understudy
from understudy.timing import measure


@pytest.fixture(scope="module")
def short_timings() -> Iterator[None]:
    """Time models for less than a second, where no test looks at the figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_SECONDS_A_TURN", 0.005)
        patch.setattr(measure, "_LEAST_SECONDS_A_TURN", 0.0)
        patch.setattr(measure, "_PAUSE", 0.0)
        yield


@pytest.fixture(scope="session")
def artifacts(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An artifact of every kind, which has learnt next to nothing, in fp32; one of them also in int4.

    They take a minute, so the workers of pytest-xdist share them. Tests must not change them.
    """
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "artifacts"
    names = [*EXAMPLES, "embedding"]
    with FileLock(f"{shared}.lock"):
        if not (shared / "finished").exists():
            shutil.rmtree(shared, ignore_errors=True)
            shared.mkdir()
            for name in names:
                make = _embeddings if name == "embedding" else functools.partial(_export, kind=name)
                make(encoder, folder=shared / name)
            (shared / "finished").touch()
    return {name: shared / name / "artifact" for name in names}


def _export(encoder: Path, kind: str, folder: Path) -> None:
    folder.mkdir()
    model = fine_tune(encoder, kind, folder, steps=3)
    options = {
        "int8": False,
        "int4": "all" if kind == "classification" else None,
        "tolerance": 100.0,
        "speed": False,
    }
    understudy.export(model, output_dir=folder / "artifact", **options)  # type: ignore[arg-type]


def _embeddings(encoder: Path, folder: Path) -> None:
    """An artifact of an embedding model: the encoder with the mean of its tokens behind it."""
    folder.mkdir()
    rows = ["text,text_pair,label", "the red cat,a red cat,1", "the red cat,a bad film,0", "good,great,1"]
    (folder / "dev.csv").write_text("\n".join(rows) + "\n", "utf-8")
    settings = {"data.dev": str(folder / "dev.csv"), "data.max_length": 64}
    understudy.export(
        encoder, task="embedding", output_dir=folder / "artifact", int8=False, speed=False, settings=settings
    )
