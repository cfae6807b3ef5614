"""Chooses the loop structure of a region, within the limits of a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from graphwright.ir.builtin.fused import Access, Schedule, Strategy, region_values
from graphwright.ir.graph import Graph, Value
from graphwright.ir.loops.nodes import Level
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim, product
from graphwright.loop_nests.addresses import address_terms
from graphwright.loop_nests.analysis import analyze
from graphwright.loop_nests.axes import Axis, join_axes
from graphwright.loop_nests.limits import Limits
from graphwright.loop_nests.nest import Nest
from graphwright.records import replace


def schedule_of(region: Graph, limits: Limits) -> Schedule:
    """The schedule of ``region`` for the layouts of its values. Raises NotOneNest.

    The schedule of an epilogue has all axes that the analysis found, because only the kernel of the
    contraction determines which of them it can join.
    """
    body = [n for n in region if not n.is_constant and Trait.CONTRACTION not in n.op.traits]
    nest = analyze(body)
    anchor = next((node for node in region if Trait.CONTRACTION in node.op.traits), None)
    if anchor is not None:
        dims = tuple(map(len, nest.operand_maps[anchor.outputs[0]]))
        return replace(_over(region, nest, [(axis,) for axis in nest.domain]), dims=dims)
    whole = _over(region, nest, _joined(region, nest))
    if _fits_lanes(whole, _is_wide(region), limits):
        return _lanes(whole, limits)
    return _rows(whole, limits)


def _joined(region: Graph, nest: Nest) -> list[tuple[Axis, ...]]:
    """The axes of ``nest``; axes that every value accesses together are joined to one group."""
    reduced = set(nest.reduced)
    accesses = [
        nest.axes_of(axis_map) for axis_map in (*nest.axis_maps.values(), *nest.operand_maps.values())
    ]
    if nest.slices or nest.rolls:
        found = (address_terms(nest, value) for value in (*nest.loaded, *region.outputs))
        accesses += [nest.axes.resolve(t.axes) for each in found if each is not None for t in each[1]]
    accesses += [(axis,) for axis in nest.concat_axes]
    return join_axes(nest.domain, accesses, lambda a, b: (a in reduced) != (b in reduced))


def _over(region: Graph, nest: Nest, groups: Sequence[tuple[Axis, ...]]) -> Schedule:
    """The schedule of an epilogue over ``groups`` of axes."""
    position = {axis: k for k, group in enumerate(groups) for axis in group}
    values = region_values(region)
    axis_maps = [nest.axis_maps.get(v, nest.operand_maps.get(v, ())) for v in values]
    return Schedule(
        Strategy.EPILOGUE,
        tuple(nest.axes.extent(group) for group in groups),
        tuple(sorted({position[axis] for axis in nest.reduced})),
        tuple(_positions(nest.axes_of(axis_map), position) for axis_map in axis_maps),
        accesses=_accesses(region, nest, values, position) if nest.slices or nest.rolls else (),
    )


def _positions(axes: Sequence[Axis], position: Mapping[Axis, int]) -> tuple[int, ...]:
    """The positions of the groups that contain ``axes``, each once. Some axes may be in no group: those of an
    operand of which the loops read only a slice.
    """
    return tuple(dict.fromkeys(position[axis] for axis in axes if axis in position))


def _accesses(
    region: Graph, nest: Nest, values: Sequence[Value], position: Mapping[Axis, int]
) -> tuple[Access, ...]:
    """The addresses of slices that are loaded, and of rolled values that are loaded or stored."""
    accesses = []
    for number, value in enumerate(values):
        is_accessed = value in nest.loaded or value in region.outputs
        found = address_terms(nest, value) if is_accessed else None
        if found is not None:
            memory, terms = found
            joined = (replace(t, axes=_positions(nest.axes.resolve(t.axes), position)) for t in terms)
            accesses.append(Access(number, values.index(memory), tuple(joined)))
    return tuple(accesses)


def _rows(whole: Schedule, limits: Limits) -> Schedule:
    """A schedule vectorized along the innermost axis."""
    if not whole.axes or not whole.reduced:
        short = len(whole.axes) > 1 and _at_most(whole.axes[-1], limits.short_axis)
        if short:
            return replace(whole, strategy=Strategy.SHORT_ROWS, block=limits.row_block)
        return replace(whole, strategy=Strategy.ROWS)
    if whole.reduced[-1] != len(whole.axes) - 1:
        block = _column_block(whole.axes[-1], limits)
        return replace(whole, strategy=Strategy.COLUMNS, block=block)
    unroll = limits.unroll if _may_unroll(whole, limits) else 1
    keeps = Level.CACHE in limits.memory
    return replace(whole, strategy=Strategy.ROWS, unroll=unroll, keeps_rows=keeps)


def _may_unroll(whole: Schedule, limits: Limits) -> bool:
    """Whether rows are short and not known to come from memory, and iterations divide the innermost grid
    axis.
    """
    grid = [extent for k, extent in enumerate(whole.axes) if k not in whole.reduced]
    elements = product(whole.axes)
    if isinstance(elements, int) and elements > limits.unroll_elements:
        return False
    return bool(grid) and grid[-1] % limits.unroll == 0 and _at_most(_length(whole), limits.unroll_row)


def _column_block(columns: Dim, limits: Limits) -> int:
    if not isinstance(columns, int):
        return limits.column_block
    if columns <= limits.column_block:
        return max(1, columns)
    blocks = -(-columns // limits.column_block)
    return -(-columns // (blocks * limits.column_step)) * limits.column_step


def _lanes(whole: Schedule, limits: Limits) -> Schedule:
    """A schedule with one row per lane."""
    last = whole.axes[whole.reduced[-1]]
    return replace(
        whole,
        strategy=Strategy.LANES,
        block=limits.lane_block,
        sums=1 if _at_most(last, 4 * limits.lane_sums) else limits.lane_sums,
        keeps_rows=_at_most(_length(whole), limits.register_row),
    )


def _fits_lanes(whole: Schedule, is_wide: bool, limits: Limits) -> bool:
    """Whether the LANES strategy is faster: rows are short, or there are few columns."""
    if not whole.reduced or len(whole.reduced) == len(whole.axes):
        return False
    length = _length(whole)
    if whole.reduced[-1] == len(whole.axes) - 1:
        return _at_most(length, limits.lane_row // 2 if is_wide else limits.lane_row)
    inner = takewhile(lambda k: k not in whole.reduced, reversed(range(len(whole.axes))))
    columns = product([whole.axes[k] for k in inner])
    if _at_most(columns, limits.lane_columns) or Level.CACHE not in limits.memory:
        return True
    return _at_most(length, limits.register_row) and not is_wide and _streams(length, columns, limits)


def _streams(length: Dim, columns: Dim, limits: Limits) -> bool:
    """Whether the cache holds all rows of a block at a time: they map to different sets, or are few."""
    apart = isinstance(columns, int) and columns % limits.page != 0
    return _at_most(length, limits.cache_ways) or apart


def _is_wide(region: Graph) -> bool:
    """Whether a value has 8-byte elements, which halves the number of lanes of all values."""
    return any(value.type.dtype.bits == 64 for value in region_values(region))


def _length(whole: Schedule) -> Dim:
    """Elements of a row."""
    return product([whole.axes[k] for k in whole.reduced])


def _at_most(dim: Dim, bound: int) -> bool:
    return isinstance(dim, int) and dim <= bound
