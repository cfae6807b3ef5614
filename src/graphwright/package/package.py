"""A compiled model in memory: what an ``.om`` file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from graphwright.errors import Diagnostic, PackageError
from graphwright.ir.arrays import Array
from graphwright.ir.dtypes import DType
from graphwright.package.packs import Packs
from graphwright.package.tasks import StoredProgram
from graphwright.package.weights import UnpackedWeights, Weights, no_weights
from graphwright.records import dataclass, field, replace

if TYPE_CHECKING:
    from graphwright.lower.tasks import Program
    from graphwright.package.stages import Stages

FORMAT = 4
"""Of the file; others are refused."""
WEIGHTS = "weights.safetensors"
SPARE = "graph.safetensors"
GENERAL = "general.txt"


def own_weights(isa: str) -> str:
    """The member with weights that only the tasks for ``isa`` read."""
    return f"targets/{isa}/weights.safetensors"


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as the user sees it: dims are numbers or expressions over named sizes."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...] | None

    @property
    def type_text(self) -> str:
        """``f32[N, 3]``, ``f32[*]`` where the rank is not known."""
        return f"{self.dtype}[{'*' if self.shape is None else ', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text}"


@dataclass(frozen=True)
class Target:
    """What runs on one ISA: the program, and the generated kernels as shared objects.

    ``sources`` are texts by file name: the C of ``objects[NAME]`` is ``NAME.c``, the loop IR that it was made
    from is ``NAME.loops``.
    """

    isa: str
    stored: StoredProgram
    """The tasks, as a package holds them."""
    objects: Mapping[str, bytes]
    sources: Mapping[str, str]
    library: str
    """The digest of the library whose kernels the tasks call."""

    @cached_property
    def program(self) -> Program:
        """The tasks, for those who look at them; what runs them reads :attr:`stored`. Raises PackageError."""
        try:
            return self.stored.program()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise PackageError(Diagnostic("damaged-package", f"the tasks are malformed: {error}")) from error


@dataclass(frozen=True)
class Variant:
    """What runs inputs of the ranks of ``inputs``, for a model that takes several. Its tasks read the
    package's weights.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    targets: Mapping[str, Target]

    def takes(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether the ranks of ``shapes`` are its own, and the sizes where it has numbers."""
        return all(map(_takes, self.inputs, shapes))


def _takes(spec: TensorSpec, shape: Sequence[int]) -> bool:
    if spec.shape is None or len(spec.shape) != len(shape):
        return False
    return all(size == known for size, known in zip(shape, spec.shape, strict=True) if isinstance(known, int))


@dataclass(frozen=True)
class Package:
    """``graph`` is the fused graph's text. ``weights`` are what the tasks read, packed for the first target;
    ``spare`` gives what the graph has beside them, which only compiling it again, or saving it, needs."""

    graph: str
    weights: Weights
    targets: Mapping[str, Target]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constraints: tuple[str, ...] = ()
    """What the model demands of its sizes."""
    guards: tuple[str, ...] = ()
    """What the programs assume of sizes beyond that."""
    general: str = ""
    """The graph that assumes nothing, where the programs assume something: for the shapes that break a guard
    it is compiled again."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The source model's own texts."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that reached the code."""
    report: str = ""
    """What the compiler did, in plain text."""
    signature: str = ""
    """As it was read: whoever signed it, it is written again with it."""
    trusted: bool = True
    """Whether its kernels may run; if not, they were left in the file."""
    spare: Callable[[], Weights | UnpackedWeights] = no_weights
    packs: Mapping[str, Packs] = field(default_factory=dict)
    """The weights of each further target, by ISA."""
    variants: tuple[Variant, ...] = ()
    """In place of ``targets``, where ranks of the inputs are open, or each runs a gear."""
    between: str = ""
    """Where variants are gears: what becomes of other shapes, as MapIndex says. The last variant is for those
    if it is "dynamic"."""
    stages: Stages | None = None
    """In place of ``targets``, where the host runs nodes between programs."""

    plugins: Mapping[str, str] = field(default_factory=dict)
    """The plugin that brings each op of the graph that graphwright does not have."""

    def lacking(self, op: str, where: str = "") -> PackageError:
        """That ``op`` is not registered: which plugin brings it. ``where`` is the package's file."""
        plugin = self.plugins.get(op)
        if plugin is None:
            message = f"its graph has the op {op!r}, which this version does not have"
            return PackageError(Diagnostic("damaged-package", message, where))
        message = f"it needs the op {op!r} of the plugin {plugin!r}, which is not loaded"
        hint = "--plugin FILE, or graphwright.plugins.load(FILE) before the package is loaded"
        return PackageError(Diagnostic("missing-plugin", message, where, hint))

    @property
    def source(self) -> str:
        """The text of the graph that is compiled again where the programs do not serve."""
        return self.general or self.graph

    def of_variant(self, variant: Variant) -> Package:
        """The package of ``variant`` alone, to run it."""
        return replace(
            self,
            inputs=variant.inputs,
            outputs=variant.outputs,
            targets=variant.targets,
            variants=(),
            between="",
            stages=None,
        )

    def isas(self) -> list[str]:
        """The ISAs that it holds kernels for."""
        parts = self.stages.parts() if self.stages is not None else []
        programs = [*(each.targets for each in self.variants), *(part.program.targets for part in parts)]
        return sorted({isa for targets in (self.targets, *programs) for isa in targets})

    def weights_of(self, isa: str) -> Weights:
        """What the tasks for ``isa`` read. Raises PackageError."""
        return self.packs[isa].weights() if isa in self.packs else self.weights

    def constants(self) -> dict[str, Array]:
        """All constants of the graph, and what the tasks read of others. Raises PackageError."""
        return {**self.weights.arrays, **self.spare().arrays}
