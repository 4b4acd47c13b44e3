# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Small seeded PyTorch models for tests; TorchScript reads their source from here."""

import warnings
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035 - what TorchScript knows

import torch
from torch import Tensor, nn


class AddSub(nn.Module):
    def forward(self, INPUT0: Tensor, INPUT1: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: N803, UP006
        return INPUT0 + INPUT1, INPUT0 - INPUT1


class Keyed(nn.Module):
    def forward(self, given: Dict[str, Tensor]) -> Dict[str, Tensor]:  # noqa: UP006
        return {"SUM": given["A"] + given["B"], "PRODUCT": given["A"] * given["B"]}


class Upper(nn.Module):
    def forward(self, texts: List[str]) -> List[str]:  # noqa: UP006
        made: List[str] = []  # noqa: UP006
        for text in texts:
            made.append(text.upper())  # noqa: PERF401 - no comprehensions of strings there
        return made


class Same(nn.Module):
    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        return X


class Pick(nn.Module):
    """Row INDEX of a table; fails where there is none."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([10.0, 20.0, 30.0]))

    def forward(self, INDEX: Tensor) -> Tensor:  # noqa: N803
        return self.table[INDEX]


class InPlace(nn.Module):
    """Writes to what it is given."""

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        return X.add_(1)


class MaybeSum(nn.Module):
    """INPUT0 and, if it is given, INPUT1."""

    def forward(self, INPUT0: Tensor, INPUT1: Optional[Tensor]) -> Tensor:  # noqa: N803, UP045
        if INPUT1 is None:
            return INPUT0 + 0
        return INPUT0 + INPUT1


class LastAddend(nn.Module):
    """INPUT0 and INPUT1, or the INPUT1 of an earlier call."""

    def forward(self, INPUT0: Tensor, INPUT1: Optional[Tensor]) -> Tensor:  # noqa: N803, UP045
        if INPUT1 is not None:
            self.last = INPUT1
        return INPUT0 + self.last


class Sum(nn.Module):
    def forward(self, INPUT0: Tensor, INPUT1: Tensor) -> Tensor:  # noqa: N803
        return INPUT0 + INPUT1


class Before(nn.Module):
    """What it was given in the call before; of two, the first."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1)

    def forward(self, INPUT0: Tensor) -> Tensor:  # noqa: N803
        last = self.last
        self.last = INPUT0
        return last


class Running(nn.Module):
    """Adds to a state of its own and returns that."""

    total: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, size))

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        self.total.add_(X)
        return self.total


class Counter(nn.Module):
    """Y and the state are the sum of X and the state, where READY."""

    def forward(self, x: Tensor, ready: Tensor, state: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
        total = x * ready + state
        return total, total


class Accumulator(nn.Module):
    """The sum since START, with the correlation id added where READY; and the sum, as the state."""

    def forward(
        self,
        INPUT0: Tensor,  # noqa: N803 - as configs name them
        INPUT_STATE: Tensor,  # noqa: N803 - the same
        START: Tensor,  # noqa: N803 - the same
        READY: Tensor,  # noqa: N803 - the same
        CORRID: Tensor,  # noqa: N803 - the same
    ) -> Tuple[Tensor, Tensor]:  # noqa: UP006
        total = INPUT0 + INPUT_STATE * (1 - START)
        return (total + CORRID.to(total.dtype)) * READY, total

    @staticmethod
    def example() -> tuple[Tensor, ...]:
        floats = tuple(torch.zeros(2, 1) for _ in range(4))
        return (*floats, torch.zeros(2, 1, dtype=torch.int32))


class RaggedSums(nn.Module):
    """The sum of each request's own numbers, found between its ends, and twice all of them."""

    def forward(self, x: Tensor, ends: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
        running = torch.cat([torch.zeros(1), x.cumsum(0)])
        sums = running[ends[1:].long()] - running[ends[:-1].long()]
        return sums.unsqueeze(1), x + x


class Layers(nn.Module):
    """16 features to 10 classes, seeded."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(16, width), nn.ReLU(inplace=True), nn.Linear(width, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layers(x)
        return made


class Autocast(Layers):
    """The same, in bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made: Tensor = self.layers(x)
            return made


class Nested(nn.Module):
    """Takes and gives tensors in dicts and lists."""

    def forward(self, pair: dict[str, Tensor], *, scale: Tensor) -> dict[str, object]:
        total = pair["b"] + 2 * pair["a"]
        return {"total": total * scale, "parts": [pair["a"].clone(), pair["b"].clone()]}


def save_script(module: nn.Module, path: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        scripted: Any = torch.jit.script(module.eval())
        scripted.save(path)


def save_trace(module: nn.Module, path: str, *example: Tensor) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        jit: Any = torch.jit
        jit.trace(module.eval(), example).save(path)


def export(module: nn.Module, *example: object, most: int = 64, **keywords: Any) -> Any:
    """Export with a first dimension that varies up to ``most`` in every tensor."""
    batch = torch.export.Dim("batch", min=1, max=most)

    def varying(each: object) -> object:
        if isinstance(each, dict):
            return {key: varying(value) for key, value in each.items()}
        return {0: batch}

    names = module.forward.__code__.co_varnames[1:]
    shapes = dict(zip(names, map(varying, example), strict=False))
    shapes |= {name: varying(value) for name, value in keywords.items()}
    return torch.export.export(module.eval(), example, keywords, dynamic_shapes=shapes)


def decomposed(program: Any) -> Any:
    """Return a program that writes to nothing: what it would write is among its results."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        return program.run_decompositions()


def save_export(module: nn.Module, path: str, *example: object, **options: Any) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(export(module, *example, **options), path)
