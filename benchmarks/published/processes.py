"""Environments of other projects, and jobs in them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

REQUIREMENTS = {
    "tinybert": ["numpy", "tqdm", "boto3", "requests", "scipy", "scikit-learn"],
    "patient": ["numpy", "tqdm", "boto3", "requests", "regex", "pandas"],
    "static": ["model2vec[distill]==0.10.0", "scikit-learn"],
    "setfit": ["setfit==1.2.0"],
    "distillbox": ["numpy", "pyyaml", "scipy", "cython", "pillow", "transformers==5.22.0"],
    "brewer": ["textbrewer==0.2.1.post1", "transformers==5.22.0"],
}
# The newest torchvision that this torch allows wants CUDA packages, of which nothing is used.
ALONE = {"distillbox": ["torchdistill==1.1.5", "torchvision==0.28.0"]}
SCRIPTS = {"setfit": "static"}  # where two environments share one
TORCH = "torch==2.13.0"  # a looser one fetches several GB of CUDA packages


def run_peer(name: str, source: Path | None, job: dict[str, Any], options: argparse.Namespace) -> Any:
    """Run a job by `published/NAME.py` in its environment, with one thread; its answer."""
    script = Path(__file__).with_name(f"{SCRIPTS.get(name, name)}.py")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.json"
        file.write_text(json.dumps({"threads": 1, **job}), "utf-8")
        python = environment(options.environments.resolve() / name, REQUIREMENTS[name], ALONE.get(name, []))
        command = [str(python), str(script), *([str(source.resolve())] if source else []), str(file)]
        # Some write files where they are started.
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script.name} failed, see above; its job: {json.dumps(job)}")
    return json.loads(done.stdout.splitlines()[-1])


def environment(folder: Path, requirements: list[str], alone: list[str]) -> Path:
    """The Python of a virtual environment, which is made where it is missing.

    Args:
        alone: installed without what they require.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder.name}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        for wanted in ([TORCH], requirements, *([["--no-deps", *alone]] if alone else [])):
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
    return python
