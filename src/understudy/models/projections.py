"""The learnable matrices W_e and W_h that project a student's states to its teacher's width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from understudy.models.pretrained import load_tensors_beside
from understudy.models.settings import ProjectionKind, check_projection

# B batch, L tokens, H a student's hidden size, T a teacher's

PROJECTIONS = "projections.safetensors"  # in the student's folder


class Projections(nn.Module):
    """H_S · W_h of TinyBERT Eq. 8 and E_S · W_e of TinyBERT Eq. 9.

    `shared` is one matrix with a bias for all states, including the embeddings, as in the authors' code;
    `per-layer` is one for each; `none` compares the states directly.

    Args:
        channels: the teacher's channels that the student's were cut from, if any: each matrix is initialised
            to map them back to their places. Otherwise it is drawn from torch's random state.
    """

    def __init__(
        self,
        kind: ProjectionKind,
        student_size: int,
        teacher_size: int,
        num_states: int,
        *,
        channels: Tensor | None = None,
    ) -> None:
        super().__init__()
        check_projection(kind, student_size, teacher_size)
        count = {"shared": 1, "per-layer": num_states, "none": 0}[kind]
        self.linears = nn.ModuleList(nn.Linear(student_size, teacher_size) for _ in range(count))
        for linear in self.linears:
            assert isinstance(linear, nn.Linear)
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
            if channels is not None:
                nn.init.zeros_(linear.weight)
                linear.weight.data[channels, torch.arange(student_size)] = 1.0

    def continue_from(self, learnt: Mapping[str, Tensor]) -> bool:
        """Load trained matrices, if their number and shapes match; return whether they were loaded."""
        if not learnt or _shapes(learnt) != _shapes(self.state_dict()):
            return False
        self.load_state_dict(learnt)
        return True

    def forward(self, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Project the student's states from BLH to BLT, in the order the matrices were created for."""
        if not self.linears:
            return tuple(states)
        shared = len(self.linears) == 1
        return tuple(self.linears[0 if shared else place](state) for place, state in enumerate(states))


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}


def saved_projections(student: str | None) -> dict[str, Tensor]:
    """Load the projections saved with a student; empty if there are none."""
    return load_tensors_beside(student, PROJECTIONS) if student is not None else {}


def save_projections(projections: Projections | None, folder: Path) -> None:
    """Save a student's projections in its folder, if it has any."""
    if projections is not None and projections.linears:
        save_file(projections.state_dict(), folder / PROJECTIONS)
