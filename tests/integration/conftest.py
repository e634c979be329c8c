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
    """An artifact of every kind, which has learnt next to nothing, in fp32."""
    made = {}
    for kind in EXAMPLES:
        folder = tmp_path_factory.mktemp(kind)
        model = fine_tune(encoder, kind, folder, steps=3)
        understudy.export(model, output_dir=folder / "artifact", int8=False, speed=False)
        made[kind] = folder / "artifact"
    return made
