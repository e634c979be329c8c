"""Write the tables of README.md from `benchmarks/results`, between their marks.

    python benchmarks/tables.py

A test checks that README says what the results say.
"""

from __future__ import annotations

import json
import re
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
    table = teachers_table(json.loads((ROOT / "benchmarks" / "results" / "teachers.json").read_text()))
    return re.sub(
        r"(<!-- teachers -->\n).*?(<!-- end -->)",
        lambda marks: marks[1] + table + marks[2],
        text,
        flags=re.DOTALL,
    )


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


if __name__ == "__main__":
    main()
