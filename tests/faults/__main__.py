"""Disturb every command for as long as told, with new seeds: `make faults`, or `python tests/faults`.

python tests/faults --minutes 60                        # all of it; writes benchmarks/results/faults.json
python tests/faults --command finetune --fault SIGKILL --seed 7      # one try, to bring a failure back
python tests/faults --planted                           # only the defects planted by hand
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "integration")]
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE"  # fp32 on every machine

import torch
from harness import FAULTS, Bench, Try, disturb_all
from planted import DEFECTS
from world import WORKLOADS, World, make_world

RESULTS = HERE.parents[1] / "benchmarks" / "results" / "faults.json"


def find_planted(world: World, folder: Path, tries: int = 12) -> dict[str, str | None]:
    """Return for each defect what found it; None if nothing did."""
    found: dict[str, str | None] = {}
    sound = Bench(world, folder / "sound")
    for name, one in DEFECTS.items():
        bench, found[name] = Bench(world, folder / name, defect=name), None
        bench.take_expected(sound, one.command)
        for seed in range(tries):
            arguments = (one.command, one.fault, seed)
            # Found is what fails with the defect, and does not without.
            if bench.disturb(*arguments).problem and not sound.disturb(*arguments).problem:
                found[name] = f"{one.fault} of {one.command}, seed {seed}"
                break
        print(f"planted {name}: {found[name] or 'NOT FOUND'}", file=sys.stderr, flush=True)
    return found


def summarize(tries: list[Try], planted: dict[str, str | None], minutes: float) -> dict[str, Any]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in tries:
        row = counts.setdefault((one.command, one.fault), Counter())
        row.update(tries=1, faults=one.kills, survived=one.problem is None, lost=one.problem is not None)
    return {
        "kills": sum(one.kills for one in tries),
        "tries": len(tries),
        "lost": sum(one.problem is not None for one in tries),
        "planted": len(planted),
        "planted_found": sum(found is not None for found in planted.values()),
        "found_by": planted,
        "minutes": round(minutes, 1),
        "damaged_files": damaged_files(tries),
        "rows": [{"command": command, "fault": fault, **row} for (command, fault), row in counts.items()],
        "failures": [
            {"command": one.command, "fault": one.fault, "seed": one.seed} for one in tries if one.problem
        ],
    }


def damaged_files(tries: list[Try]) -> dict[str, dict[str, int]]:
    """Count what was damaged by the kind of file, and how; all of it was made anew or refused by name."""
    counts: dict[str, Counter[str]] = {}
    for one in tries:
        for file, how in one.damaged:
            kind = re.sub(r"[0-9a-f]{6,}|\d+", "N", file.name)
            counts.setdefault(kind, Counter()).update([how, *(["lost"] if one.problem else [])])
    return {kind: dict(counts[kind]) for kind in sorted(counts)}


def show(content: dict[str, Any]) -> None:
    print(
        f"{'command':24} {'fault':14} {'tries':>6} {'faults':>7} {'survived':>9} {'lost':>5}", file=sys.stderr
    )
    for row in content["rows"]:
        print(
            f"{row['command']:24} {row['fault']:14} {row['tries']:6} {row['faults']:7} {row['survived']:9} "
            f"{row['lost']:5}",
            file=sys.stderr,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--command", choices=WORKLOADS)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="commands at the same time")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["UNDERSTUDY_CACHE"] = str(folder / "cache")
        world = make_world(folder / "world")
        if options.command:
            tried = Bench(world, folder / "tries").disturb(
                options.command, options.fault or "SIGKILL", options.seed
            )
            print(tried if tried.problem else "survived")
            sys.exit(tried.problem is not None)
        planted = find_planted(world, folder)
        if options.planted:
            sys.exit(any(found is None for found in planted.values()))
        started = time.monotonic()
        # One process for each, with seeds of its own; daemons could not start the commands.
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(options.processes, context) as pool:
            jobs = [
                pool.submit(
                    disturb_all,
                    world,
                    folder / f"tries-{number}",
                    options.minutes,
                    range(options.seed + number, 2**62, options.processes),
                )
                for number in range(options.processes)
            ]
            tries = [one for job in jobs for one in job.result()]
        content = summarize(tries, planted, (time.monotonic() - started) / 60)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE)
    content = {"date": time.strftime("%Y-%m-%d"), "commit": commit.stdout.strip(), **content}
    show(content)
    before = json.loads(options.output.read_text("utf-8")) if options.output.exists() else {}
    content |= {"inputs": before["inputs"]} if "inputs" in before else {}  # of inputs.py
    options.output.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    print(json.dumps({name: content[name] for name in ("kills", "lost", "planted_found")}))
    sys.exit(content["lost"] > 0 or content["planted_found"] < content["planted"])


if __name__ == "__main__":
    main()
