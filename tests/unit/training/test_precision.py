"""bf16 where the hardware computes in it, fp32 elsewhere, and the reason said."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.recipe.library import shipped_recipes
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe
from understudy.training import precision
from understudy.training.arguments import build_arguments
from understudy.training.precision import hardware_precision, measure_precisions, precision_of


@pytest.mark.parametrize(
    ("flags", "limit", "expected", "reason"),
    [
        ({"avx2", "avx512f"}, None, "fp32", "no bf16 instructions"),
        ({"avx512_bf16"}, None, "bf16", "avx512_bf16"),
        ({"amx_bf16"}, None, "bf16", "amx_bf16"),
        ({"bf16", "asimd"}, None, "bf16", "bf16"),
        ({"amx_bf16"}, "AVX512_CORE", "fp32", "ONEDNN_MAX_CPU_ISA=AVX512_CORE"),
        ({"amx_bf16"}, "AVX2", "fp32", "ONEDNN_MAX_CPU_ISA=AVX2"),
        ({"amx_bf16"}, "AVX512_CORE_AMX", "bf16", "amx_bf16"),
        ({"avx2"}, "AVX512_CORE_AMX", "fp32", "no bf16 instructions"),
    ],
)
def test_the_processor_and_its_limits_decide(
    flags: set[str],
    limit: str | None,
    expected: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "cpu_flags", lambda: flags)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if limit is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    found = hardware_precision(use_cpu=True)
    assert found.name == expected
    assert reason in found.reason
    arguments = build_arguments({"use_cpu": True, "report_to": "none"}, tmp_path)
    assert arguments.bf16 == (expected == "bf16")
    assert precision_of(arguments, {}) == found


def test_what_is_said_wins(tmp_path: Path) -> None:
    said = build_arguments({"use_cpu": True, "report_to": "none", "bf16": True}, tmp_path)
    assert said.bf16
    assert precision_of(said, {"bf16": True}).reason == "the recipe says so"


@pytest.mark.parametrize("name", shipped_recipes())
def test_no_shipped_recipe_names_a_precision(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.precision == "auto"
    assert "bf16" not in recipe.to_yaml()


def test_a_recipes_precision_is_that_of_all_its_stages() -> None:
    values = {
        "task": "mrpc",
        "method": "tinybert",
        "intermediate": {},
        "prediction": {"training": {"bf16": True}},
    }
    recipe = Recipe.from_mapping({**values, "precision": "fp32"})
    assert recipe.intermediate is not None
    assert recipe.prediction is not None
    assert (recipe.intermediate.training["bf16"], recipe.prediction.training["bf16"]) == (False, True)
    assert Recipe.from_mapping(recipe.model_dump(exclude_defaults=True)) == recipe


def test_both_speeds_are_measured() -> None:
    speeds = measure_precisions(repeats=1)
    assert set(speeds) == {"fp32", "bf16"}
    assert all(speed > 0 for speed in speeds.values())
