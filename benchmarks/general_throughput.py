"""What does general distillation cost compared with a bare loop, and where does the time go?

The real encoder teaches a `tinybert-4l-312d` student on blocks of real text: `understudy general` as it is,
against a loop of the same models, losses and batches and nothing else, in turns in one process.

    python benchmarks/general_throughput.py --assets ../shared/assets

Prints one JSON object: `ratio` (our seconds divided by the bare loop's), tokens per second, and the shares of
the bare loop's time: reading, the teacher's forward pass, the student's, losses, backward pass, optimiser.
`--quick` takes a few steps and writes no results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "general_throughput.json"
REPEATS, STEPS = 3, 30
QUICK_STEPS = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(options, Path(folder))
    results |= {"threads": options.threads, "machine": machine(), "commit": git_commit()}
    print(f"ratio {results['ratio']}, {results['tokens_per_second']} tokens/s", file=sys.stderr)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results))


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    import understudy
    from understudy.distillation.general_text import learn_general, prepare_general
    from understudy.recipe.load import load_recipe

    encoder, steps = str(options.assets / "bert-12l-384h-mlm"), QUICK_STEPS if options.quick else STEPS
    understudy.corpus(
        [options.assets / "wiki" / "validation.parquet"], tokenizer=encoder, output_dir=folder / "corpus"
    )
    recipe = load_recipe(
        "desk-general",
        {
            "teacher": encoder,
            "general.corpus": str(folder / "corpus"),
            "student.init": "random",  # where the weights come from makes no difference to a step
            "general.training.max_steps": steps,
            "general.training.save_strategy": "no",
            "general.training.eval_strategy": "no",
            "general.training.report_to": "none",
        },
    )

    def ours() -> float:
        run = prepare_general(recipe, folder / "out")
        run = dataclasses.replace(run, rows=dataclasses.replace(run.rows, held_out=()))
        return float(learn_general(run, folder / "out")["seconds"]["training"])

    tokens = 0
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    shares: list[Counter[str]] = []
    ours()  # the first run of a process is slower
    for _ in range(REPEATS):
        seconds["ours"].append(ours())
        taken, parts, tokens = bare(prepare_general(recipe, folder / "out"), steps)
        seconds["bare"].append(taken)
        shares.append(parts)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    total = sum(shares, Counter())
    return {
        "ratio": round(median["ours"] / median["bare"], 3),
        "tokens_per_second": {name: round(tokens / value) for name, value in median.items()},
        "shares": {name: round(value / sum(total.values()), 3) for name, value in total.items()},
        "steps": steps,
        "seconds": {name: [round(value, 2) for value in values] for name, values in seconds.items()},
    }


def bare(run: Any, steps: int) -> tuple[float, Counter[str], int]:
    """The same models, losses and batches without a Trainer; seconds, seconds by part, tokens."""
    import torch
    from transformers import get_linear_schedule_with_warmup

    from understudy.capture.query_key import capture
    from understudy.data.encode import Collator
    from understudy.distillation.layers import match
    from understudy.models.teacher import cast_linears, keep_layers
    from understudy.objectives.compose import layer_losses, weighted_sum

    model, teacher_layers = match(run.student, run.teacher, run.settings, run.cut)
    keep_layers(run.teacher, max(teacher_layers))
    cast_linears(run.teacher, torch.bfloat16)
    arguments = run.arguments
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=arguments.learning_rate, weight_decay=arguments.weight_decay
    )
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    collate, batch_size = Collator(run.rows.tokenizer), arguments.per_device_train_batch_size
    parts: Counter[str] = Counter()
    tokens = 0
    model.train()
    started = last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        parts[name] += now - last
        last = now

    for step in range(steps):
        batch = collate([run.rows.train[step * batch_size + place] for place in range(batch_size)])
        tokens += int(batch["attention_mask"].sum())
        lap("reading")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                shown = capture(run.teacher.base_model, batch, teacher_layers)
            lap("teacher")
            learnt = model(**batch)
            lap("student forward")
        losses = layer_losses(learnt, shown, batch["attention_mask"], weights=run.settings.weights)
        loss = weighted_sum(losses, run.settings.weights).mean()
        lap("losses")
        loss.backward()
        lap("backward")
        torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.max_grad_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        lap("optimiser")
    return time.perf_counter() - started, parts, tokens


if __name__ == "__main__":
    main()
