"""A GEMM whose B are quantized codes, which it decodes (see :mod:`~graphwright.kernels.gemm.nbits`): its
arguments, scratch, predicted time, and the memory that it accesses.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, mod
from graphwright.kernels.gemm import grouped_gemm, nbits, nbits_dynamic, problem
from graphwright.kernels.gemm.grouped_gemm import GroupedArgs
from graphwright.kernels.gemm.problem import GemmArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import FLAG, Extent, Reach, dense
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_gemm_f32_codes"
GROUPED: Final = "gw_gemm_f32_grouped_codes"


@dataclass(frozen=True)
class CodesArgs(Arguments):
    """The arguments after those of a GEMM; the strides of B are 0."""

    bits: Dim
    block: Dim
    """Elements of K that share a scale: a power of two, at least 16."""
    floats: Dim
    """Whether zero points are f32, not u8."""
    dynamic: Dim
    """Whether A may be quantized to bytes (``nbits_dynamic.py``)."""


ABI: Final = Abi("codes", ("a", "codes", "scales", "zeros", "bias", "residual", "c"), CodesArgs.names())
"""The arguments follow those of a GEMM. ``zeros`` may be absent."""
GROUPED_ABI: Final = Abi("grouped_codes", (*grouped_gemm.ABI.operands, "scales", "zeros"))
"""A grouped GEMM, with B as codes; the arguments follow those of the groups."""


def scratch_bytes(isa: Isa, args: GemmArgs, codes: CodesArgs) -> Dim:
    """The scratch without panels, or what A is prepared to: for few rows the sums of A over quantization
    blocks, and A scaled; or a block of quantized rows.
    """
    blocks = ceildiv(args.k, codes.block)
    few = nbits.scratch_bytes(blocks, codes.block)
    quantized = nbits_dynamic.scratch_bytes(minimum(args.m, problem.BLOCK_ROWS), blocks, codes.block)
    quantized *= codes.dynamic
    return maximum(problem.scratch_bytes(isa, args, packed=False), few, quantized)


_DECODED_ROWS: Final = 64
"""Rows that share decoded weights."""
_BYTES_EFFICIENCY: Final = 75
"""The percentage of the peak that the products of codes and bytes reach."""
_CODES_PER_CYCLE: Final = 4
"""The codes of a lane that are decoded to bytes in a cycle."""


def work_ns(isa: Isa, args: GemmArgs, codes: CodesArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: products, reading the codes, and decoding them once per
    block of rows.
    """
    if codes.dynamic and codes.bits in nbits_dynamic.WIDTHS:
        return _bytes_work_ns(isa, args, codes)
    elements = args.k * args.n
    decoding = Work(
        cycles=ceildiv(elements * (4 + codes.bits), 4 * isa.lanes) * ceildiv(args.m, _DECODED_ROWS),
        weights=elements * codes.bits // 8,
    )
    products = Work(fmas=args.m * elements, efficiency=problem.EFFICIENCY[isa.name])
    return predict(decoding, isa.machine) + minimum(1, floordiv(args.m, 2)) * predict(products, isa.machine)


def _bytes_work_ns(isa: Isa, args: GemmArgs, codes: CodesArgs) -> Dim:
    """The predicted time if A is quantized: each group of rows decodes the codes again."""
    elements = args.k * args.n
    work = Work(
        byte_fmas=args.m * elements,
        efficiency=_BYTES_EFFICIENCY,
        cycles=ceildiv(elements, _CODES_PER_CYCLE * isa.lanes) * ceildiv(args.m, nbits.group_rows(isa)),
        weights=elements * codes.bits // 8,
    )
    return predict(work, isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the kernels access."""
    a, grouped, codes = GemmArgs.symbols(), GroupedArgs.symbols(), CodesArgs.symbols()
    b = _weights(isa, 1, a.n, a.k)
    whole = problem.extent(isa, SYMBOL, ABI, b, scratch_bytes(isa, a, codes))
    words, *rest = _weights(isa, grouped.groups, grouped.n, grouped.k).values()
    scratch = scratch_bytes(isa, grouped_gemm.product(grouped), codes)
    groups = grouped_gemm.extent(isa, GROUPED, dense(4, grouped.m, grouped.k), words, scratch)
    groups = replace(groups, operands=(*groups.operands, *rest))
    return _with_codes(whole), _with_codes(groups)


def _weights(isa: Isa, groups: Dim, n: Dim, k: Dim) -> dict[str, Reach]:
    """The packed weights; quantization blocks are whole words of codes."""
    codes = CodesArgs.symbols()
    width, blocks = problem.panel_columns(isa), ceildiv(k, codes.block)
    columns = groups * ceildiv(n, width) * width
    return {
        "codes": dense(4, columns, blocks, floordiv(codes.block * codes.bits, nbits.WORD)),
        "scales": dense(4, columns, blocks),
        "zeros": dense(1 + 3 * codes.floats, columns, blocks, optional=True),
    }


def _with_codes(made: Extent) -> Extent:
    """``made`` with the arguments of the codes."""
    codes = CodesArgs.symbols()
    return replace(
        made,
        args=(*made.args, *CodesArgs.names()),
        bounds={
            **(made.bounds or {}),
            "block": (nbits.WORD // min(nbits.WIDTHS), 1 << 31),
            "floats": FLAG,
            "dynamic": FLAG,
        },
        choices={**(made.choices or {}), "bits": nbits.WIDTHS},
        multiples=(mod(codes.block, nbits.WORD // min(nbits.WIDTHS)),),
    )
