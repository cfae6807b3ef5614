"""Compiles modules to programs: runs the passes, then generates code."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.compiler.code_generation import Compilation, generate_code
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.compiler.run_passes import Observer, run_passes
from graphwright.config import Options
from graphwright.ir.graph import Module
from graphwright.kernels.candidates.registry import load
from graphwright.lower.checks import refuse_unknown_ranks
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.targets.registry import target_of


def compile_modules(
    modules: Sequence[Module],
    options: Options,
    observe: Observer = lambda name, product: None,
    shared: Weights | None = None,
    prepared: Sequence[Sequence[Record] | None] = (),
) -> list[Compilation]:
    """Compiles each of ``modules``, which are rewritten in place, to a program. The programs share one set of
    weights, which begins with ``shared``, and one set of generated kernels.

    ``prepared`` holds, for each module, the records of the graph passes that have run on it, or None if they
    have not. Raises ModelError, ToolchainError.
    """
    load()
    target = target_of(options)
    records: list[list[Record]] = []
    for module, done in zip(modules, prepared or [None] * len(modules), strict=True):
        passes = (*(graph_passes(options) if done is None else ()), *kernel_passes(target, options))
        records.append([*(done or ()), *run_passes(module, passes, options, observe)])
        refuse_unknown_ranks(module.main)
    return generate_code(modules, records, options, observe, shared)
