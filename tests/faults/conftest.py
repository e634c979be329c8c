"""One world for all tests of faults."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "integration")]

from harness import Bench
from world import World, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("faults")
    before = os.environ.get("UNDERSTUDY_CACHE")
    os.environ["UNDERSTUDY_CACHE"] = str(folder / "cache")
    try:
        return make_world(folder / "world")
    finally:
        os.environ.pop("UNDERSTUDY_CACHE")
        if before is not None:
            os.environ["UNDERSTUDY_CACHE"] = before


@pytest.fixture(scope="session")
def bench(world: World, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(world, tmp_path_factory.mktemp("tries"))
