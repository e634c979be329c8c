"""How does the peak memory of Eq. 7 grow with the length?

Compares both ways to compute the attention loss, forward and backward, for 12 heads of size 64 (teacher) and
26 (student): the L×L matrix, and the form that is linear in the length. Each length and way runs in its own
process; the figure is what the loss adds to the peak memory of the process.

    python benchmarks/attention_memory.py

`--quick` does 512 and 1,024 tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

LENGTHS = (512, 1_024, 2_048, 4_096)
HEADS, STUDENT_SIZE, TEACHER_SIZE, BATCH = 12, 26, 64, 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measure(options.measure[0], int(options.measure[1])))
        return
    lengths = LENGTHS[:2] if options.quick else LENGTHS
    figures: dict[str, dict[int, float]] = {"matrix": {}, "linear": {}}
    for length in lengths:
        for way in figures:
            command = [sys.executable, __file__, "--measure", way, str(length)]
            finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures[way][length] = float(finished.stdout)
    print(f"{'tokens':>8} {'matrix MB':>10} {'linear MB':>10}", file=sys.stderr)
    for length in lengths:
        print(
            f"{length:>8,} {figures['matrix'][length]:>10.0f} {figures['linear'][length]:>10.0f}",
            file=sys.stderr,
        )
    growth = {way: round(by[lengths[-1]] / by[lengths[0]], 2) for way, by in figures.items()}
    print(json.dumps({"peak_mb": figures, "length_ratio": lengths[-1] / lengths[0], "growth": growth}))


def measure(way: str, length: int) -> float:
    """Megabytes that the loss adds to the peak of this process."""
    import torch

    from understudy.capture.representations import QueryKey
    from understudy.objectives import tinybert

    torch.set_num_threads(1)
    # Whatever the length, this way.
    square = {"matrix": tinybert._square_matrix, "linear": tinybert._square_linear}[way]
    tinybert._square_matrix = tinybert._square_linear = square

    def layer(size: int, tokens: int) -> QueryKey:
        query, key = torch.randn(2, BATCH, tokens, HEADS * size)
        return QueryKey(query.requires_grad_(), key.requires_grad_(), HEADS, size**-0.5)

    def run(student: QueryKey, teacher: QueryKey) -> None:
        mask = torch.ones(student.query_BLW.shape[:2])
        tinybert.attention_loss(student, teacher, mask).mean().backward()

    run(layer(STUDENT_SIZE, 8), layer(TEACHER_SIZE, 8))  # libraries take their memory now
    student, teacher = layer(STUDENT_SIZE, length), layer(TEACHER_SIZE, length)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(student, teacher)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    main()
