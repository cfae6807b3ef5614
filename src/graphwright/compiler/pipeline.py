"""The list of all compilation stages, in order. ``python -m graphwright --stages`` prints it.

A stage runs passes over the module, or makes the next product from it. A model that one program can run goes
through all stages. Other models are partitioned, and each subgraph is compiled as a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from graphwright.compiler.partition import is_placed
from graphwright.config import Options
from graphwright.cost.choices import choices_of
from graphwright.fusion.fuse import Fuse
from graphwright.fusion.region_names import NameRegions
from graphwright.fusion.rules.base import FUSE
from graphwright.fusion.rules.switches import rule_set
from graphwright.fusion.schedule import ScheduleRegions
from graphwright.ir.graph import Module, Node
from graphwright.kernels.candidates.registry import candidates_of
from graphwright.layout.assign import AssignLayouts
from graphwright.layout.channels_last import AssignChannelsLast
from graphwright.layout.fold_depth import FoldDepth
from graphwright.log import warn_once
from graphwright.passes.base import Pass
from graphwright.passes.bound_sizes import BoundSizes
from graphwright.passes.conv_to_matmul import CONV_TO_MATMUL
from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.decompose import Decompose
from graphwright.passes.fixpoints import SHAPES, SIMPLIFY
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.fold_quantize_scale import FOLD_QUANTIZE_SCALE
from graphwright.passes.fold_requantize import FOLD_REQUANTIZE
from graphwright.passes.integer_products import INTEGER_PRODUCTS
from graphwright.passes.lower_precision import lower_precision
from graphwright.passes.manager import Fixpoint, Scheduled, StageEnd
from graphwright.passes.plugin_passes import Point
from graphwright.passes.quantize_weights import quantize_weights
from graphwright.passes.sink_dequantize import SINK_DEQUANTIZE
from graphwright.passes.weight_only_quantization import WEIGHT_ONLY_QUANTIZATION
from graphwright.passes.widen_halves import KEEP_EXCESS_PRECISION, WidenHalves
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.this_cpu import convolves_bf16, multiplies_bf16
from graphwright.targets.base import Target


@dataclass(frozen=True)
class Stage:
    """One step of a compilation. Passes run in this order: those of ``for_target``, those of ``for_options``,
    then ``passes``. ``level`` is the least ``opt_level`` at which the stage runs.
    """

    name: str
    does: str
    passes: tuple[Scheduled, ...] = ()
    for_target: Callable[[Target, Options], tuple[Pass, ...]] | None = None
    for_options: Callable[[Options], tuple[Pass, ...]] | None = None
    level: int = 0

    @property
    def has_passes(self) -> bool:
        """Whether the stage runs passes over the module; other stages make the next product from it."""
        return bool(self.passes or self.for_target or self.for_options)


def has_kernel(node: Node) -> bool:
    """Whether decomposition keeps ``node``: it has a kernel, or an expression that fusion
    compiles into one.
    """
    return bool(candidates_of(node)) or node.op.has_expression()


def _layouts(target: Target, _options: Options) -> tuple[Pass, ...]:
    return (AssignLayouts(target.channel_block, target.machine),) if target.channel_block else ()


def _channels(target: Target, _options: Options) -> tuple[Pass, ...]:
    if not target.channel_block:
        return (CONV_TO_MATMUL,)
    return (
        CONV_TO_MATMUL,
        FoldDepth(target.channel_block, target.machine),
        AssignChannelsLast(target.channel_block, target.machine),
    )


def _replacements(options: Options) -> tuple[Pass, ...]:
    return rule_set(options).rewrites()


def _fuse(target: Target, options: Options) -> tuple[Pass, ...]:
    rules = rule_set(options)
    replacements = rules.rewrites(FUSE) if target.channel_block else ()  # they need blocked kernels
    return (*replacements, Fuse(target, rules, choices_of(options)))


def _schedule(target: Target, _options: Options) -> tuple[Pass, ...]:
    return (ScheduleRegions(target),)


def _precision(options: Options) -> tuple[Pass, ...]:
    everything = options is _ALL_REQUESTS
    in_bf16 = everything or multiplies_bf16(options)
    if options.precision == "bf16" and not in_bf16:
        warn_once(
            "bf16",
            "precision=bf16 is ignored, as this CPU has no AVX512-BF16: "
            "matrix multiplications and convolutions stay in f32",
        )
    convolutions = everything or convolves_bf16(options)
    lowered = lower_precision(options.precision, convolutions=convolutions) if in_bf16 else ()
    return (*quantize_weights(options.weights), *lowered, WidenHalves(in_bf16, convolutions))


DEFAULT: Final = Options()
"""The default options."""
_ALL_REQUESTS: Final = Options(weights="int4", precision="bf16")
"""Options that request every optional pass, whatever the CPU."""
PARTITION: Final = "partition"
CHANNELS: Final = "channels"
STAGES: Final = (
    Stage("import", "translates the nodes of the model to ops, and binds the sizes given by the caller"),
    Stage(
        "quantized",
        "recognizes quantized matrix multiplications, pooling, sums and products, before weights are folded "
        "to floats",
        (INTEGER_PRODUCTS, SINK_DEQUANTIZE, FOLD_QUANTIZE_SCALE, WEIGHT_ONLY_QUANTIZATION),
        level=1,
    ),
    Stage(
        "shapes",
        "infers types, folds constants, and inlines branches and loops whose condition is known",
        (SHAPES,),
    ),
    Stage("imported", "runs users' passes on the model's own ops", (Point.IMPORTED,)),
    Stage("simplify", "applies simplifications until nothing changes", (SIMPLIFY,), level=1),
    Stage(
        "replace",
        "replaces several ops by one with a kernel (attention), or by cheaper ops",
        for_options=_replacements,
    ),
    Stage(
        "simplified",
        "runs users' passes on the simplified graph",
        (Point.SIMPLIFIED, DeadCode()),
    ),
    Stage(
        PARTITION,
        "splits a model that one program cannot run into programs and Python nodes",
        (BoundSizes(),),
    ),
    Stage(
        "decompose",
        "replaces ops without a kernel by ops that have one",
        (Decompose(has_kernel), SHAPES, CommonSubexpressions(), DeadCode()),
    ),
    Stage(
        "precision",
        "accumulates 16-bit floats in f32; lowers the precision of weights or operands on request",
        (CommonSubexpressions(),),
        for_options=_precision,
    ),
    Stage("decomposed", "runs users' passes on the decomposed graph", (Point.DECOMPOSED,)),
    Stage(
        CHANNELS,
        "computes convolutions over a single window as matrix multiplications and 3-D convolutions as 2-D "
        "ones, and uses the channels-last layout where this removes transposes",
        for_target=_channels,
        level=1,
    ),
    Stage("fuse", "groups nodes that one kernel can compute", for_target=_fuse),
    Stage(
        "conversions",
        "removes conversions between the nodes of a kernel",
        (FOLD_REQUANTIZE, KEEP_EXCESS_PRECISION),
        level=1,
    ),
    Stage("layouts", "assigns memory layouts to images", for_target=_layouts, level=1),
    Stage(
        "schedule",
        "chooses the loop schedule of each region, and names it for what it computes",
        (NameRegions(),),
        for_target=_schedule,
    ),
    Stage("select", "chooses a library kernel for each node, or generates loops"),
    Stage(
        "bands", "runs chains of convolutions on bands of rows when the images between them exceed the cache"
    ),
    Stage("lower", "orders launches, plans memory, and creates the tasks and the shape program"),
    Stage("emit", "generates C for the loops"),
    Stage("kernels", "compiles the C to shared objects"),
)
_NAMES: Final = [stage.name for stage in STAGES]


def shape_passes(module: Module, options: Options) -> tuple[Scheduled, ...]:
    """Passes that infer types and show whether all ranks are known statically.

    Products with quantized weights are not recognized for the reference device, which computes the model as
    it is written. They are also not recognized before nodes on other devices are partitioned.
    """
    as_it_is = options.device == "reference" or is_placed(module.main)
    return (SHAPES,) if as_it_is else _passes(STAGES[: _NAMES.index("shapes") + 1], options)


def graph_passes(options: Options = DEFAULT) -> tuple[Scheduled, ...]:
    """Passes from the imported graph to the graph that is partitioned."""
    return _passes(STAGES[: _NAMES.index(PARTITION)], options)


def partition_passes(options: Options) -> tuple[Scheduled, ...]:
    """Passes that prepare a graph that no single program can run."""
    return _passes([STAGES[_NAMES.index(PARTITION)]], options)


def kernel_passes(target: Target, options: Options = DEFAULT) -> tuple[Scheduled, ...]:
    """Passes from the graph of one program to the graph that kernels are selected for."""
    return _passes(STAGES[_NAMES.index(PARTITION) + 1 :], options, target)


def source_passes(options: Options, keep: Callable[[Node], bool]) -> tuple[Scheduled, ...]:
    """Passes from the imported graph to a simplified graph in the ops of the model, for engines that have
    kernels for these ops. Quantized operands stay, and constant nodes for which ``keep`` is true.
    """
    names = ("import", "shapes", "imported", "simplify", "simplified")
    passes = _passes([stage for stage in STAGES if stage.name in names], options)
    return tuple(_keeping(each, keep) for each in passes)


def _keeping(scheduled: Scheduled, keep: Callable[[Node], bool]) -> Scheduled:
    """``scheduled`` with constant folding that leaves nodes for which ``keep`` is true."""
    if not isinstance(scheduled, Fixpoint):
        return scheduled
    passes = [replace(p, keep=keep) if isinstance(p, FoldConstants) else p for p in scheduled.passes]
    return replace(scheduled, passes=tuple(passes))


def fusion_passes(target: Target, options: Options) -> tuple[Scheduled, ...]:
    """Passes from the graph after :func:`source_passes` to one with Fused nodes. Images keep their layout,
    which other engines expect.
    """
    stages = STAGES[_NAMES.index("replace") : _NAMES.index("fuse") + 1]
    return _passes([s for s in stages if s.name not in (PARTITION, CHANNELS)], options, target)


def _passes(stages: Sequence[Stage], options: Options, target: Target | None = None) -> tuple[Scheduled, ...]:
    passes: list[Scheduled] = []
    for stage in stages:
        if stage.level > options.opt_level or not stage.has_passes:
            continue
        if stage.for_target is not None and target is not None:
            passes += stage.for_target(target, options)
        if stage.for_options is not None:
            passes += stage.for_options(options)
        passes += (*stage.passes, StageEnd(stage.name))
    return tuple(passes)


def passes_of(stage: Stage, target: Target) -> list[Pass]:
    """The passes of ``stage`` including optional ones, with fixpoints flattened and without users' passes."""
    passes: list[Pass] = []
    for scheduled in _passes([stage], _ALL_REQUESTS, target):
        if not isinstance(scheduled, Point | StageEnd):
            passes += scheduled.passes if isinstance(scheduled, Fixpoint) else (scheduled,)
    return passes
