"""The table that a notebook shows of a finished distillation."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.report.markup import safe, table


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> str:
    """Return a table of plain texts, with lines of text below it."""
    cells = [[safe(cell) for cell in row] for row in rows]
    return table(header, cells) + "".join(f"<p>{safe(line)}</p>" for line in below)
