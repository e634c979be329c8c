"""What differs between families is in one table: no other module names a family or its parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from transformers import AutoConfig

from understudy.models import families
from understudy.models.families import Family, family_of, own_sizes, register_family

SOURCE = Path(__file__).parents[3] / "src" / "understudy"
NAMES = re.compile(
    r"distilbert|roberta|camembert|electra|mpnet|modernbert|albert|deberta"
    r"|attention\.self|attention\.output|q_lin|query_proj|key_proj|\bhidden_dim\b|\bn_layers\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "file",
    [file for file in SOURCE.rglob("*.py") if file.name != "families.py"],
    ids=lambda file: str(file.relative_to(SOURCE)),
)
def test_no_other_module_names_a_family_or_its_parts(file: Path) -> None:
    code = "\n".join(line.split("  # ")[0] for line in file.read_text("utf-8").splitlines())
    code = re.sub(r'""".*?"""', "", code, flags=re.DOTALL)
    code = "\n".join(line for line in code.splitlines() if not line.strip().startswith("#"))
    assert NAMES.findall(code) == []


def test_a_family_without_an_entry_can_teach_and_no_more() -> None:
    config = AutoConfig.for_model("gpt2")
    assert family_of(config) == Family("gpt2", can_resize=False)


def test_sizes_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    config = AutoConfig.for_model("distilbert", dim=24, n_layers=3, n_heads=2, hidden_dim=48)
    assert own_sizes(config) == {
        "num_hidden_layers": 3,
        "hidden_size": 24,
        "intermediate_size": 48,
        "num_attention_heads": 2,
    }
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))
    register_family(Family("gpt2", sizes={"num_hidden_layers": "n_layer", "intermediate_size": "n_inner"}))
    assert own_sizes(AutoConfig.for_model("gpt2", n_layer=5))["num_hidden_layers"] == 5
