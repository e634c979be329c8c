"""A sample of what `make faults` does for an hour: commands disturbed at a moment, then run again.

Each case has found a defect once, or is the only one of its command. `python tests/faults` has all commands.
"""

from __future__ import annotations

import pytest
from harness import Bench

CASES = [
    ("finetune", "SIGKILL", 0),
    ("distill tinybert", "SIGKILL", 1),
    ("distill joint", "SIGKILL", 0),
    ("general", "SIGTERM", 0),
    ("corpus", "power", 0),
    ("mine", "power", 1),
    ("augment", "damage", 0),
    ("augment", "two at once", 0),
    ("evaluate", "SIGTERM", 1),
    ("predict", "SIGKILL", 0),
]


@pytest.mark.parametrize(("command", "fault", "seed"), CASES)
def test_a_disturbed_command_ends_as_an_undisturbed_one(
    command: str, fault: str, seed: int, bench: Bench
) -> None:
    tried = bench.disturb(command, fault, seed)
    assert tried.problem is None, str(tried)
