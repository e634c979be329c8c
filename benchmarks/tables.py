"""Write the tables of README.md from `benchmarks/results`, between their marks.

    python benchmarks/tables.py

A test checks that README says what the results say.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = {
    "sst2": "SST-2",
    "cola": "CoLA",
    "mrpc": "MRPC",
    "rte": "RTE",
    "stsb": "STS-B",
    "conll2003": "CoNLL-2003 NER",
    "squad": "extractive QA (MLQA English)",
}


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(with_tables(readme.read_text("utf-8")), "utf-8")


def with_tables(text: str) -> str:
    """The text with its tables made anew."""
    for mark, make in (("teachers", teachers_table), ("students", students_table)):
        table = make(json.loads((ROOT / "benchmarks" / "results" / f"{mark}.json").read_text()))
        text = re.sub(
            rf"(<!-- {mark} -->\n).*?(<!-- end -->)",
            lambda marks, table=table: marks[1] + table + marks[2],
            text,
            flags=re.DOTALL,
        )
    return text


def teachers_table(results: dict) -> str:
    lines = ["| task | rows | metric | dev score (95 %) | minutes |", "|---|---|---|---|---|"]
    for task, name in NAMES.items():
        record = results[task]
        low, high = record["interval"]
        lines.append(
            f"| {name} | {record['rows']['train']:,} | {record['metric'].replace('_', ' ')} | "
            f"{record['score']:.3f} ({low:.3f}–{high:.3f}) | {record['minutes']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def students_table(results: dict) -> str:
    lines = [
        "| task | metric | teacher | labels only | distilled | difference |",
        "|---|---|---|---|---|---|",
    ]
    for task in ("sst2", "mrpc"):
        ways = {
            way: [record for name, record in sorted(results.items()) if name.startswith(f"{task}-{way}-")]
            for way in ("labels", "distilled")
        }
        for metric in ways["distilled"][0]["scores"]:
            values = {
                way: [record["scores"][metric]["value"] for record in records]
                for way, records in ways.items()
            }
            mean = {way: statistics.mean(found) for way, found in values.items()}
            shown = {
                way: f"{mean[way]:.3f} ({', '.join(f'{value:.3f}' for value in found)})"
                for way, found in values.items()
            }
            teacher = ways["distilled"][0]["teacher"][metric]
            lines.append(
                f"| {NAMES[task]} | {metric} | {teacher:.3f} | {shown['labels']} | {shown['distilled']} | "
                f"{mean['distilled'] - mean['labels']:+.3f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
