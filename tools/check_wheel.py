"""Build the wheel, install it into an empty environment, and predict with it: no torch, small, quick.

    python tools/check_wheel.py

Prints one JSON object: megabytes of the base install, seconds to the first prediction.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
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
        assert (site / "understudy" / "web" / "page" / "student.js").is_file(), "the page is not in the wheel"
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
        figures["serve"] = check_container(place, wheel, artifact, site)
        print(json.dumps(figures))


def check_container(place: Path, wheel: Path, artifact: Path, site: Path) -> dict[str, float]:
    """Follow the steps of a container's Dockerfile here, and ask its server as another user.

    Returns:
        Megabytes that `[serve]` adds, seconds until the server is ready, megabytes of an idle worker.
    """
    import psutil

    from understudy.serve.container import write_container

    container, bin_folder = place / "container", place / "empty" / "bin"
    write_container(artifact, container)
    shutil.copy2(wheel, container / "wheels")
    before = size_of(site)
    install = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    run([*install, "--find-links", str(container / "wheels"), "-r", str(container / "requirements.txt")])
    added = (size_of(site) - before) / 1e6
    lines = (container / "Dockerfile").read_text("utf-8").splitlines()
    (command,) = (json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ["))
    command = [one.replace("/artifact", str(container / "artifact")) for one in command]
    command = [str(bin_folder / command[0]), *command[1:-1], "0"]
    run(["chmod", "-R", "a-w", str(container)])
    run(["chown", "-R", "65534:65534", str(container)]) if os.getuid() == 0 else None
    place.chmod(0o755)
    scratch = place / "tmp"
    scratch.mkdir()
    scratch.chmod(0o777)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    environment = {"PATH": str(bin_folder), "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    started = time.perf_counter()
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd="/", **nobody)
    try:
        said = next(line for line in server.stderr if line.startswith("Serving"))
        url = said.split()[-1].replace("0.0.0.0", "127.0.0.1")
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=30) as ready:
            assert ready.status == 200, said
        seconds = time.perf_counter() - started
        asked = urllib.request.Request(f"{url}/predict", b'{"text": "a good film"}')
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert json.load(answer)["label"] in ("pos", "neg")
        memory = psutil.Process(server.pid).memory_info().rss / 1e6
    finally:
        server.terminate()
        server.wait(30)
    return {
        "megabytes_more": round(added, 1),
        "seconds_to_ready": round(seconds, 2),
        "worker_megabytes": round(memory, 1),
    }


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
