"""The kernel of a fused region, for each ISA: generated loops alone, in one launch."""

from __future__ import annotations

from graphwright.compiler.modules import run_passes
from graphwright.compiler.pipeline import kernel_passes
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.ir.clone import clone_graph
from graphwright.ir.constant import Constant, constant_of, is_constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import Constraint
from graphwright.kernels.candidates.generated import GENERATED, GeneratedKernels
from graphwright.kernels.launch import Alias, Launch, Run
from graphwright.kernels.select import select_kernels
from graphwright.records import dataclass
from graphwright.targets.base import Target


class NotServed(Exception):
    """The library has no operator for a region; the message says why."""


@dataclass(frozen=True)
class RegionLaunch:
    """How a region runs: ``inputs`` and ``outputs`` are values of the region's own graph.

    ``operands``: for each operand of the launch, the position of an input, or of an output behind all inputs.
    ``constraints``: what the kernel takes for granted of sizes.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    launch: Launch
    operands: tuple[int, ...]
    constraints: tuple[Constraint, ...]


def region_launch(
    module: Module, region: Graph, target: Target, options: Options, generated: GeneratedKernels
) -> RegionLaunch:
    """The launch of ``region``, which belongs to ``module``; its kernel is added to ``generated``. Raises
    NotServed.
    """
    own = _module_of(module, region)
    mark = generated.mark()
    try:
        run_passes(own, kernel_passes(target, options), options)
        selection = select_kernels(own, own.main, target, options.numerics, generated)
        launches, roots = _launches([(step.node, step.action) for step in selection.steps])
        if len(launches) != 1:
            raise NotServed(f"it takes {len(launches)} launches")
        launch = launches[0]
        if launch.kernel.module != GENERATED or launch.hook is not None or launch.takes_hook:
            raise NotServed("a kernel of the library computes it")
        inputs, outputs = tuple(own.main.inputs), tuple(own.main.outputs)
        places = _places(inputs, [_root(value, roots) for value in outputs])
        operands = [_operand(operand, places, roots) for operand in launch.operands]
    except (NotServed, ModelError):
        generated.take_back(mark)
        raise
    table = own.symbols
    return RegionLaunch(inputs, outputs, launch, tuple(operands), (*table.constraints, *table.guards))


def _module_of(module: Module, region: Graph) -> Module:
    """``region`` as the entry of a module of its own."""
    own = Module()
    own.symbols = module.symbols.copy()
    own.symbols.assume_nothing()
    own.symbols.constraints = {}
    own.symbols.demands_all = True
    for node in region:
        if isinstance(node.op, Constant):
            own.constants.add(module.constants[node.op.value])
    own.add_graph(clone_graph(region, "main"))
    return own


def _launches(steps: list[tuple[Node, object]]) -> tuple[list[Launch], dict[Value, Value]]:
    """All launches, and what is memory of another value."""
    launches: list[Launch] = []
    roots: dict[Value, Value] = {}
    for node, action in steps:
        if isinstance(action, Alias) and action.offset == 0:
            roots[node.outputs[0]] = action.source
            continue
        if not isinstance(action, Run) or action.temporaries:
            raise NotServed("it is no launch of one kernel")
        for launch in action.launches:
            if not isinstance(launch, Launch):
                raise NotServed("it copies memory")
            launches.append(launch)
    return launches, roots


def _root(value: Value, roots: dict[Value, Value]) -> Value:
    while value in roots:
        value = roots[value]
    return value


def _places(inputs: tuple[Value, ...], outputs: list[Value]) -> dict[Value, int]:
    places = {value: k for k, value in enumerate(inputs)}
    for k, value in enumerate(outputs):
        if value in places or is_constant(value):
            raise NotServed("an output is memory of another value")
        places[value] = len(inputs) + k
    return places


def _operand(operand: object, places: dict[Value, int], roots: dict[Value, Value]) -> int:
    if not isinstance(operand, Value):
        raise NotServed("a kernel reads a part of a value")
    root = _root(operand, roots)
    if constant_of(root) is not None:
        raise NotServed("a kernel reads a constant that fusion made")
    if root not in places:
        raise NotServed("a kernel reads a value that is computed inside")
    return places[root]
