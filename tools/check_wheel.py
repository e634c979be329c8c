"""Build the wheel, install it into an empty environment, and predict with it: no torch, small, quick.

    python tools/check_wheel.py

Prints one JSON object: megabytes of the base install, seconds to the first prediction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
MEGABYTES, SECONDS = 120, 0.5  # goals
FIRST = """
import time
started = time.perf_counter()
from understudy import Predictor
print(Predictor({artifact!r})("a good film")["label"], time.perf_counter() - started)
"""


def main() -> None:
    """Fail where the wheel does not do what it must."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run(
            [sys.executable, "-m", "build", "--outdir", str(place / "dist"), str(ROOT)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (wheel,) = (place / "dist").glob("*.whl")
        assert list((place / "dist").glob("*.tar.gz")), "no source distribution"
        venv.create(place / "empty", with_pip=True)
        python = place / "empty" / "bin" / "python"
        site = next((place / "empty" / "lib").glob("python*/site-packages"))
        before = size_of(site)
        run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(wheel)])
        megabytes = (size_of(site) - before) / 1e6
        artifact = make_artifact(place)
        command = place / "empty" / "bin" / "understudy"
        said = run([str(command), "predict", str(artifact), "a good film"])
        assert said.split("\t")[0] in ("pos", "neg"), said
        hint = subprocess.run(
            [str(command), "distill", "x", "--output-dir", "y"], capture_output=True, text=True, check=False
        )
        assert hint.returncode == 2, hint.stderr
        assert "pip install 'understudy-distill[train]'" in hint.stderr.replace("\n", " "), hint.stderr
        no_torch = run([str(python), "-c", "import importlib.util as u; print(u.find_spec('torch'))"])
        assert no_torch.strip() == "None"
        timed = [run([str(python), "-c", FIRST.format(artifact=str(artifact))]) for _ in range(3)]
        seconds = min(float(one.split()[1]) for one in timed)
        figures = {"megabytes": round(megabytes, 1), "seconds_to_first_prediction": round(seconds, 3)}
        biggest = sorted(((size_of(path), path.name) for path in site.iterdir()), reverse=True)[:6]
        figures["largest"] = {name: round(size / 1e6, 1) for size, name in biggest}
        print(json.dumps(figures))


def run(command: list[str]) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
    assert done.returncode == 0, done.stderr
    return done.stdout


def size_of(path: Path) -> int:
    """Bytes of a file or folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) or path.stat().st_size


def make_artifact(folder: Path) -> Path:
    """A tiny exported classifier, made in this environment."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "UNDERSTUDY_CACHE": str(folder / "cache")}
    sys.path[:0] = [str(TESTS), str(TESTS / "integration")]
    from exported import fine_tune, write_encoder

    import conftest
    import understudy

    encoder = write_encoder("bert", conftest.tokenizer.__wrapped__(), folder / "encoder")
    model = fine_tune(encoder, "classification", folder, steps=30)
    understudy.export(model, output_dir=folder / "artifact", speed=False, tolerance=100.0)
    return folder / "artifact"


if __name__ == "__main__":
    main()
