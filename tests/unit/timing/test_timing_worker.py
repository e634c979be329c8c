"""A timed model's process, left alone by whoever started it."""

from __future__ import annotations

import operator
import pickle
import subprocess
import sys
from functools import partial

import pytest

from understudy.timing.measure import Candidate

# Its answer is an error, which is an answer.
CANDIDATE = Candidate("toy", partial(operator.methodcaller, "keys"), (), 10)


@pytest.mark.parametrize("heard", [b"", pickle.dumps((CANDIDATE, 1)) + pickle.dumps((1, 2, 1))])
def test_it_ends_without_a_word_if_nobody_listens(heard: bytes) -> None:
    command = [sys.executable, "-m", "understudy.timing.worker"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(heard)
    process.stdin.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
