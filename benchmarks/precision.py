"""Is `precision: auto` as fast as the faster of fp32 and bf16, whatever the processor supports?

The layer stage of `quickstart` with the real encoder, a few steps at a time, in turns: auto, fp32 and bf16,
with oneDNN limited to each of several instruction sets.

    python benchmarks/precision.py --assets ../shared/assets

Prints one JSON object: median seconds per step by limit and precision, and `slowdown`, the largest ratio of
auto to the faster of the other two. `--quick` makes one round of two steps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "precision.json"
LIMITS = ("DEFAULT", "AVX512_CORE", "AVX2")
PRECISIONS = ("auto", "fp32", "bf16")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(time_steps(options))
        return
    if options.quick:
        options.steps, options.rounds = 2, 1
    seconds: dict[str, dict[str, list[float]]] = {
        limit: {name: [] for name in PRECISIONS} for limit in LIMITS
    }
    for _ in range(options.rounds):
        for limit in LIMITS:
            for name in PRECISIONS:
                seconds[limit][name].append(ask(options, limit, name))
                print(f"{limit} {name}: {seconds[limit][name][-1]:.2f} s a step", file=sys.stderr)
    medians = {
        limit: {name: round(statistics.median(found), 4) for name, found in ways.items()}
        for limit, ways in seconds.items()
    }
    slowdown = max(ways["auto"] / min(ways["fp32"], ways["bf16"]) for ways in medians.values())
    results = {
        "slowdown": round(slowdown, 3),
        "seconds_a_step": medians,
        "all": seconds,
        "steps": options.steps,
        "commit": git_commit(),
        "machine": machine(),
    }
    print(json.dumps(results))
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def ask(options: argparse.Namespace, limit: str, precision: str) -> float:
    """Seconds a step in a process of its own: the limit is read when oneDNN starts."""
    command = [sys.executable, __file__, "--worker", precision, "--assets", str(options.assets)]
    command += ["--steps", str(options.steps), "--threads", str(options.threads)]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": limit, "HF_HUB_OFFLINE": "1"}
    environment["OMP_NUM_THREADS"] = str(options.threads)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def time_steps(options: argparse.Namespace) -> float:
    from datasets import Dataset
    from transformers import AutoModel, AutoTokenizer

    from understudy import DistillationTrainer, TinyBertObjectives
    from understudy.models.settings import StudentSettings
    from understudy.models.student import student_config
    from understudy.training.arguments import build_arguments
    from understudy.training.cpu import tune_cpu

    tune_cpu()
    encoder = str(options.assets / "bert-12l-384h-mlm")
    lines = (options.assets / "glue" / "SST-2" / "train.tsv").read_text("utf-8").splitlines()[1:641]
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    rows = Dataset.from_dict(dict(tokenizer([line.split("\t")[0] for line in lines])))
    teacher = AutoModel.from_pretrained(encoder, dtype="float32")
    config = student_config(StudentSettings(shape="tinybert-4l-312d"), teacher.config)
    student = AutoModel.from_config(config, attn_implementation="eager")
    chosen = {"auto": {}, "fp32": {"bf16": False}, "bf16": {"bf16": True}}[options.worker]
    block = {"max_steps": options.steps, "per_device_train_batch_size": 32, "report_to": "none", **chosen}
    block |= {"save_strategy": "no", "eval_strategy": "no", "disable_tqdm": True}
    block |= {"train_sampling_strategy": "sequential"}
    with tempfile.TemporaryDirectory() as folder:
        trainer = DistillationTrainer(
            student,
            teacher,
            TinyBertObjectives(weights={"attention": 0.02}),
            build_arguments(block, Path(folder)),
            train_dataset=rows,
            processing_class=tokenizer,
        )
        trainer.train()  # the first steps warm up
        return float(trainer.train().metrics["train_runtime"]) / options.steps


if __name__ == "__main__":
    main()
