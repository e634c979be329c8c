"""What a command says on standard error."""

from __future__ import annotations

import logging

import pytest

from understudy.cli.console import people_on_stderr


def test_a_long_line_stays_one_line_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    line = " ".join(["word"] * 60)
    with people_on_stderr():
        logging.getLogger("understudy").info(line)
    assert capsys.readouterr().err == f"{line}\n"
