"""The real encoder through the command line, for a few steps."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import pipeline
from typer.testing import CliRunner

from understudy.cli.app import app


def test_finetune_evaluate_and_pipeline(assets: Path, tmp_path: Path) -> None:
    output = tmp_path / "sst2"
    train = tmp_path / "train.tsv"
    lines = (assets / "glue" / "SST-2" / "train.tsv").read_text("utf-8").splitlines(keepends=True)
    train.write_text("".join(lines[:641]), "utf-8")
    dev = tmp_path / "dev.tsv"
    dev_lines = (assets / "glue" / "SST-2" / "dev.tsv").read_text("utf-8").splitlines(keepends=True)
    dev.write_text("".join(dev_lines[:201]), "utf-8")
    arguments = ["finetune", str(assets / "bert-12l-384h-mlm"), "--recipe", "desk-finetune-sst2"]
    arguments += ["--set", f"data.train={train}", "--set", f"data.dev={dev}", "--output-dir", str(output)]
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    finally:
        torch.set_num_threads(threads)
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    # 20 steps: far from the teacher's 0.9, and far from chance.
    assert content["scores"]["dev"]["accuracy"]["value"] > 0.6
    classify = pipeline("text-classification", model=str(output), device="cpu")
    assert classify("a wonderful , moving film")[0]["label"] == "positive"
