"""The table that a notebook shows of a finished distillation."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> str:
    """Return an HTML table with lines of text below it.

    >>> html_table(["model", "score"], [["teacher", "0.9"]])
    '<table><tr><th>model</th><th>score</th></tr><tr><td>teacher</td><td>0.9</td></tr></table>'
    """
    lines = [_row(header, "th"), *(_row(row, "td") for row in rows)]
    return f"<table>{''.join(lines)}</table>" + "".join(f"<p>{escape(line)}</p>" for line in below)


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
