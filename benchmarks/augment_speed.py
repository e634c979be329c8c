"""How much faster is augmentation than one forward pass per word, and what does it cost on top of the model?

On 500 rows of SST-2 and MRPC each, with the real masked language model: `understudy`'s batch function against
Algorithm 1 as it is written down, one forward pass for every word of every variant (on a few rows, and scaled
by the number of passes: it would take hours), and against the bare forward passes over the same masked
inputs, batched by length, with the head at the masks alone.

    python benchmarks/augment_speed.py --assets ../shared/assets

Prints one JSON object by task with `speedup` (of `context: original` over the algorithm as written),
`speedup_sequential` (of `context: sequential`, which has the same results as the algorithm as written),
`speedup_once` (of `context: original` over one pass per word and text, as in the published code) and
`overhead` (of `context: original` over the bare passes). `--quick` takes 40 rows and writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "augment_speed.json"
TASKS = ("sst2", "mrpc")
REPEATS = 3
PLAIN_PASSES = 200


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    results = {task: measure(task, options) for task in TASKS}
    for task, figures in results.items():
        print(f"{task}: {figures}", file=sys.stderr)
    results |= {"threads": options.threads, "machine": machine(), "commit": git_commit()}
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results))


def measure(task: str, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from understudy.augmentation.replace import Question
    from understudy.augmentation.run import augment_rows, plan_attempts
    from understudy.augmentation.shards import ShardMaker
    from understudy.data.load import load_data
    from understudy.recipe.load import load_recipe
    from understudy.training.cpu import tune_cpu

    torch.set_num_threads(options.threads)
    tune_cpu()
    recipe = load_recipe(
        f"augment-{task}",
        {
            "augment.model": str(options.assets / "bert-12l-384h-mlm"),
            "augment.variants": 20,
            "augment.bf16": True,
            "data.source": str(options.assets / "glue"),
        },
    )
    settings = recipe.augment
    assert settings is not None
    kind = recipe.task_definition.kind
    num_rows = 40 if options.quick else 500
    data = load_data(recipe.task_definition, recipe.data, ["train"])
    maker = ShardMaker(settings, kind, data, recipe.seed, num_rows)
    rows = list(maker.rows(range(num_rows)))
    asked: list[Question] = []

    def ask(questions: Iterable[Question]) -> Any:
        questions = list(questions)
        asked.extend(questions)
        return maker.ask(questions)

    def ours(context: str = "original") -> float:
        asked.clear()
        started = time.perf_counter()
        augment_rows(rows, kind, settings.model_copy(update={"context": context}), recipe.seed, ask)
        return time.perf_counter() - started

    def bare() -> float:
        """The same masked inputs through the model, longest first, with logits at the masks: nothing else."""
        masked = maker.ask.masked_words
        inputs = sorted(masked.mask(asked), key=lambda one: len(one[0]), reverse=True)
        started = time.perf_counter()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            start = 0
            while start < len(inputs):
                length = len(inputs[start][0])
                part = inputs[start : start + max(1, 4_096 // length)]
                start += len(part)
                ids = torch.tensor([one + [0] * (length - len(one)) for one, _ in part])
                mask = torch.tensor([[1] * len(one) + [0] * (length - len(one)) for one, _ in part])
                masked.logits(ids, mask, torch.tensor([place for _, place in part]))
        return time.perf_counter() - started

    seconds_sequential = ours("sequential")  # and the first run of a process is slower
    seconds: dict[str, list[float]] = {"ours": [], "bare": [], "plain_pass": []}
    for _ in range(REPEATS):
        seconds["ours"].append(ours())
        seconds["bare"].append(bare())
        sample = asked[:: max(1, len(asked) // PLAIN_PASSES)]
        seconds["plain_pass"].append(plain(maker.ask.masked_words, sample, settings.candidates))
    median = {name: statistics.median(values) for name, values in seconds.items()}
    # What the algorithm as written would ask: every word that may be replaced, of every variant.
    words = sum(
        len(trial.side.places) for row in rows for trial in plan_attempts(row, kind, settings, recipe.seed)
    )
    return {
        "speedup": round(median["plain_pass"] * words / median["ours"], 1),
        "speedup_sequential": round(median["plain_pass"] * words / seconds_sequential, 1),
        "speedup_once": round(median["plain_pass"] * len(asked) / median["ours"], 2),
        "overhead": round(median["ours"] / median["bare"], 3),
        "rows": len(rows),
        "passes": {"as_written": words, "original": len(asked)},
        "seconds": {name: round(value, 4) for name, value in median.items()}
        | {"sequential": round(seconds_sequential, 4)},
    }


def plain(masked: Any, questions: Sequence[Any], count: int) -> float:
    """Seconds of one forward pass for one word: float32, all logits, sorted."""
    import torch

    tokenizer, model = masked.tokenizer, masked.model
    started = time.perf_counter()
    with torch.inference_mode():
        for question in questions:
            start, end = question.span
            text = question.text[:start] + tokenizer.mask_token + question.text[end:]
            inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=128)
            place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
            logits = model(**inputs).logits[0, place]
            logits.argsort(descending=True)[: 2 * count].tolist()
    return (time.perf_counter() - started) / len(questions)


if __name__ == "__main__":
    main()
