"""The short texts that a crash in a kernel reports by default. They contain only what loading a program has
read anyway.

With the option ``crash_dir``, :mod:`graphwright.runtime.crashes.sites` makes longer texts, which takes
longer. Sizes are encoded as described there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from graphwright.executable.target_code import TargetCode
from graphwright.support.escaping import terminal

_MOST_TENSORS = 8
"""The most inputs or outputs whose shapes are shown."""


def brief_sites(target: TargetCode, model: str) -> list[str]:
    """For each task, the lines that name its model, task, kernel and nodes, and the shapes of the run."""
    stored = target.stored
    inputs, outputs = (_shapes(*each) for each in zip(stored.bindings, stored.dims, strict=True))
    head = f"  model: {terminal(model)}\n"
    end = f"  shapes: ({inputs}) -> ({outputs})\n"
    count = len(stored.launches)
    return [
        f"{head}  task: {number} of {count}\n{_kernel(stored.kernels, kernel, target.name)}"
        f"  nodes: {terminal(nodes)}\n{end}"
        for number, (nodes, kernel) in enumerate(stored.launches)
    ]


def _kernel(kernels: Sequence[tuple[str, str]], number: int, target: str) -> str:
    if not 0 <= number < len(kernels):
        return ""
    symbol, module = kernels[number]
    unit = f"{terminal(module)}.c" if module else "the library"
    return f"  kernel: {terminal(symbol)} of {unit}, for {terminal(target)}\n"


def _shapes(bindings: Sequence[tuple[str, str]], dims: Sequence[Iterable[int]]) -> str:
    """Types such as ``x: f32[n, 4]``; the signal handler replaces the registers by the sizes."""
    shown = [
        f"{terminal(name)}: {terminal(dtype)}[{', '.join(map(_register, sizes))}]"
        for (name, dtype), sizes in islice(zip(bindings, dims, strict=True), _MOST_TENSORS)
    ]
    return ", ".join(
        [*shown, f"and {len(bindings) - _MOST_TENSORS} more"] if len(bindings) > _MOST_TENSORS else shown
    )


def _register(number: int) -> str:
    return f"\1r{number};"
