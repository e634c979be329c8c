"""Disturb every command for as long as told, with new seeds: `make faults`, or `python tests/faults`.

python tests/faults --minutes 60                        # all of it; writes benchmarks/results/faults.json
python tests/faults --command finetune --fault SIGKILL --seed 7      # one try, to bring a failure back
python tests/faults --planted                           # only the defects planted by hand
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
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
from harness import FAULTS, ON_A_DISK, Bench, Try, can_mount
from planted import DEFECTS
from world import WORKLOADS, World, make_world

RESULTS = HERE.parents[1] / "benchmarks" / "results" / "faults.json"
# Commands that write once, at their end: there is nothing to damage before, and a second process comes too late.
_SHORT = ("predict", "evaluate", "export", "export --overwrite", "bench")
SKIPPED = {(name, fault) for name in _SHORT for fault in ("two at once", "damage")}
# These have no --overwrite, or take a port that a second one would wait for.
SKIPPED |= {(name, "two at once") for name in ("ablate", "distill joint, 2 ranks", "general, 2 ranks")}


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


def disturb_all(world: World, folder: Path, minutes: float, first_seed: int) -> list[Try]:
    """Disturb every command by every fault, seed after seed, until the time is up."""
    bench, done = Bench(world, folder), []
    faults = FAULTS if can_mount(folder) else [name for name in FAULTS if name not in ON_A_DISK]
    if len(faults) < len(FAULTS):
        print(f"Left out, because no disk can be mounted here: {', '.join(ON_A_DISK)}", file=sys.stderr)
    deadline = time.monotonic() + 60 * minutes
    for seed in itertools.count(first_seed):
        for fault, command in itertools.product(faults, WORKLOADS):
            if (command, fault) in SKIPPED:
                continue
            if time.monotonic() > deadline:
                return done
            done.append(bench.disturb(command, fault, seed))
            if done[-1].problem is not None:
                print(f"LOST {done[-1]}", file=sys.stderr, flush=True)
    raise AssertionError("unreachable")


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
        "rows": [{"command": command, "fault": fault, **row} for (command, fault), row in counts.items()],
        "failures": [
            {"command": one.command, "fault": one.fault, "seed": one.seed} for one in tries if one.problem
        ],
    }


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
        tries = disturb_all(world, folder / "tries", options.minutes, options.seed)
        content = summarize(tries, planted, (time.monotonic() - started) / 60)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE)
    content = {"date": time.strftime("%Y-%m-%d"), "commit": commit.stdout.strip(), **content}
    show(content)
    options.output.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    print(json.dumps({name: content[name] for name in ("kills", "lost", "planted_found")}))
    sys.exit(content["lost"] > 0 or content["planted_found"] < content["planted"])


if __name__ == "__main__":
    main()
