from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from exported import fine_tune
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import ModelError, RecipeError
from understudy.workspace.results import TimingRow


@pytest.fixture(scope="module")
def models(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("bench")
    model = fine_tune(encoder, "classification", folder, steps=60)
    understudy.export(model, output_dir=folder / "artifact", speed=False)
    return model, folder / "artifact"


def test_all_are_timed_at_every_shape_and_compared_with_the_first(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    model, artifact = models
    out = tmp_path / "out"
    arguments = [str(model), str(artifact), "--batch", "1,4", "--lengths", "8,16", "--output-dir", str(out)]
    done = CliRunner().invoke(app, ["bench", *arguments, "--json"])
    assert done.exit_code == 0, done.exception
    content = json.loads(done.stdout)
    names = [str(model), f"{artifact}:fp32", f"{artifact}:int8"]
    assert list(content["models"]) == names
    assert len(content["rows"]) == 3 * 4
    for row in content["rows"]:
        assert 0 < row["median_ms"] <= row["p95_ms"]
        assert row["passes"] >= 10
        assert row["cpu_ms"] > 0
        assert row["quartiles_ms"][0] <= row["median_ms"] <= row["quartiles_ms"][1]
        assert row["cpu_quartiles_ms"][0] <= row["cpu_ms"] <= row["cpu_quartiles_ms"][1]
        assert (row["times_faster"] is None) == row["busy"]  # no figure where none can be trusted
        if row["model"] == names[0]:
            assert row["times_faster"] in (1.0, None)
            assert row["cpu_times_faster"] in (1.0, None)
        assert row["flop"] > 0
    assert all(one["peak_memory"] > 1e6 for one in content["models"].values())
    # Torch is not in the process of what does not need it.
    assert content["models"][names[2]]["peak_memory"] < content["models"][names[0]]["peak_memory"]
    assert content["models"][names[2]]["scores"]["accuracy"] > 0.5
    assert content["machine"]["cores"] >= 1
    assert (out / "bench.svg").read_text().startswith("<?xml")
    assert json.loads((out / "result.json").read_text())["picture"] == "bench.svg"
    assert "in this run alone" in " ".join(done.stderr.split())


BURN = "while True: pass"


def test_a_busy_machine_does_not_change_what_is_said(models: tuple[Path, Path]) -> None:
    """Either a ratio is that of a quiet machine, or it is not given. CPU times hold in both cases."""
    model, artifact = models

    def measure() -> TimingRow:
        return understudy.bench([model, f"{artifact}:int8"], batches=[16], lengths=[64]).rows[1]

    quiet = measure()
    others = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        disturbed = measure()
    finally:
        for other in others:
            other.kill()
            other.wait()
    for name in ("times_faster", "cpu_times_faster"):
        before, after = getattr(quiet, name), getattr(disturbed, name)
        if None not in (before, after):
            assert 0.5 <= after / before <= 2
    assert disturbed.busy or disturbed.median_ms <= 1.25 * disturbed.cpu_ms


def test_figures_of_another_run_are_not_compared(models: tuple[Path, Path], tmp_path: Path) -> None:
    model, artifact = models
    understudy.bench([f"{artifact}:int8"], batches=[1], lengths=[8], output_dir=tmp_path / "before")
    for other in (tmp_path / "before", tmp_path / "before" / "result.json"):
        with pytest.raises(RecipeError, match="figures of another run"):
            understudy.bench([model, other])


def test_what_cannot_be_timed_is_refused(models: tuple[Path, Path]) -> None:
    model, artifact = models
    with pytest.raises(RecipeError, match="--lengths must be at most 128"):
        understudy.bench([model], lengths=[129])
    with pytest.raises(ModelError, match=r"the artifact has fp32, int8; got 'int4'"):
        understudy.bench([f"{artifact}:int4"])
    with pytest.raises(ModelError, match="is not an artifact"):
        understudy.bench([f"{model}:int8"])
    with pytest.raises(RecipeError, match="is given twice"):
        understudy.bench([model, artifact, model])
    done = CliRunner().invoke(app, ["bench", str(model), "--batch", "1,x"])
    assert "--batch must be whole numbers" in done.stderr
