"""A compiled model in memory: what an ``.om`` file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphwright.ir.types import DType
from graphwright.lower.tasks import Program
from graphwright.package.weights import Weights


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as the user sees it: dims are numbers or expressions over named sizes."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True)
class Target:
    """What runs on one ISA: the program, and the generated kernels as shared objects.

    ``sources`` are texts by file name: the C of ``objects[NAME]`` is ``NAME.c``, the loop IR that it was made
    from is ``NAME.loops``.
    """

    isa: str
    program: Program
    objects: Mapping[str, bytes]
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Package:
    """``graph`` is the fused graph's text; its constants are in ``weights``, packed for the first target."""

    graph: str
    weights: Weights
    targets: Mapping[str, Target]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constraints: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The source model's own texts."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that reached the code."""
    report: str = ""
    """What the compiler did, in plain text."""
    signature: str = ""
    """As it was read: whoever signed it, it is written again with it."""
