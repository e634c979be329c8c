"""Artifacts of every kind, for servers and pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# kinds.py and others are shared by the tests of this folder.
sys.path.insert(0, str(Path(__file__).parent))

from exported import fine_tune
from kinds import EXAMPLES

import understudy


@pytest.fixture(scope="session")
def artifacts(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An artifact of every kind, which has learnt next to nothing, in fp32; one of them also in int4."""
    made = {}
    for kind in EXAMPLES:
        folder = tmp_path_factory.mktemp(kind)
        model = fine_tune(encoder, kind, folder, steps=3)
        options = {
            "int8": False,
            "int4": "all" if kind == "classification" else None,
            "tolerance": 100.0,
            "speed": False,
        }
        understudy.export(model, output_dir=folder / "artifact", **options)  # type: ignore[arg-type]
        made[kind] = folder / "artifact"
    made["embedding"] = _embeddings(encoder, tmp_path_factory.mktemp("embedding"))
    return made


def _embeddings(encoder: Path, folder: Path) -> Path:
    """An artifact of an embedding model: the encoder with the mean of its tokens behind it."""
    rows = ["text,text_pair,label", "the red cat,a red cat,1", "the red cat,a bad film,0", "good,great,1"]
    (folder / "dev.csv").write_text("\n".join(rows) + "\n", "utf-8")
    settings = {"data.dev": str(folder / "dev.csv"), "data.max_length": 64}
    output = folder / "artifact"
    understudy.export(
        encoder, task="embedding", output_dir=output, int8=False, speed=False, settings=settings
    )
    return output
