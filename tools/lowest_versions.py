"""Print the lowest allowed version of every direct dependency, as a constraints file for pip.

python tools/lowest_versions.py > lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]


def lowest() -> list[str]:
    """`name==version` of everything that the base and `train` need."""
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["train"]]
    found = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\w.]+)", one) for one in wanted]
    return [f"{one[1]}=={one[2]}" for one in found if one is not None]


if __name__ == "__main__":
    print("\n".join(lowest()))
