"""Pieces of HTML from which the sections of a report are built."""

from __future__ import annotations

import html
from collections.abc import Sequence


def safe(text: object) -> str:
    """Escape a text."""
    return html.escape(str(text))


def with_note(text: str, *notes: str) -> str:
    """Return a text with small notes below it."""
    return safe(text) + "".join(f"<small>{safe(note)}</small>" for note in notes if note)


def section(title: str, content: str) -> str:
    """Return a section with its title."""
    return f"<section><h2>{safe(title)}</h2>{content}</section>"


def side_by_side(pictures: Sequence[str], kind: str = "") -> str:
    """Return pictures side by side, or below each other on a phone."""
    figures = "".join(f"<figure>{one}</figure>" for one in pictures)
    return f"<div class='pictures {kind}'>{figures}</div>"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table; its cells are HTML already."""
    top = "".join(f"<th>{safe(one)}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<div class=scroll><table><tr>{top}</tr>{body}</table></div>"
