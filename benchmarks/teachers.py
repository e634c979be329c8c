"""What scores do the shipped desk recipes reach on a real encoder?

Fine-tunes the encoder on each task with its `desk-finetune-*` recipe, through the command line as a
user would, and keeps a record per task: metric, score, interval, minutes, command.

    python benchmarks/teachers.py --assets ../shared/assets --output-dir teachers

A task that is already in the results is skipped, so the script can be stopped and run again.
`--quick` trains 20 steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "teachers.json"
TASKS = ("mrpc", "rte", "stsb", "cola", "sst2", "conll2003", "squad")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("teachers"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        record = run("mrpc", options.assets, options.output_dir / "quick", ["--set", "training.max_steps=20"])
        print(json.dumps(record))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for task in options.tasks:
        if task not in results:
            results[task] = run(task, options.assets, options.output_dir / task, [])
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for task, record in results.items():
        low, high = record["interval"]
        print(
            f"{task:10} {record['metric']:9} {record['score']:.4f} ({low:.4f} – {high:.4f}) "
            f"{record['minutes']:5.1f} min  {record['command']}",
            file=sys.stderr,
        )
    print(json.dumps(results))


def run(task: str, assets: Path, output_dir: Path, extra: list[str]) -> dict[str, object]:
    command = ["understudy", "finetune", str(assets / "bert-12l-384h-mlm")]
    command += ["--recipe", f"desk-finetune-{task}", *data_options(task, assets, output_dir)]
    command += ["--output-dir", str(output_dir), *extra]
    print(shlex.join(command), file=sys.stderr)
    finished = subprocess.run(
        [*command, "--overwrite", "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    result = json.loads(finished.stdout)
    scores = result["scores"]["dev"]
    headline = next(iter(scores))
    return {
        "metric": headline,
        "score": scores[headline]["value"],
        "interval": [scores[headline]["low"], scores[headline]["high"]],
        "all": scores,
        "rows": {split: count["rows"] for split, count in result["counts"].items()},
        "steps": result["steps"],
        "minutes": round(result["seconds"]["training"] / 60, 1),
        "seed": result["seed"],
        "command": shlex.join(command),
        "commit": git_commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": result["versions"],
    }


def data_options(task: str, assets: Path, output_dir: Path) -> list[str]:
    if task == "squad":
        train, dev = split_articles(assets / "qa" / "mlqa-dev-en.json", output_dir.parent / "qa")
        return ["--set", f"data.train={train}", "--set", f"data.dev={dev}"]
    return ["--data", str(assets / ("ner" if task == "conll2003" else "glue"))]


def split_articles(path: Path, folder: Path) -> tuple[Path, Path]:
    """The first 80 % of the articles for training, the rest for scoring."""
    document = json.loads(path.read_text("utf-8"))
    articles = document["data"]
    cut = len(articles) * 8 // 10
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.json", folder / "dev.json"
    for target, part in zip(paths, (articles[:cut], articles[cut:]), strict=True):
        target.write_text(json.dumps({"version": document["version"], "data": part}), "utf-8")
    return paths


if __name__ == "__main__":
    main()
