"""The C of a library of custom operators: how ONNX Runtime calls the kernels of fused regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from graphwright.autofusion.onnxruntime.kernels import NotServed, RegionLaunch
from graphwright.export.onnx.functions import FUNCTION_DOMAIN
from graphwright.frontends.onnx.tensors import onnx_number
from graphwright.ir.graph import Value
from graphwright.ir.names import identifier
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Constraint, Dim, Expr, names_in
from graphwright.records import dataclass
from graphwright.targets.cpu.c.dims import DIM_HELPERS, dim_text

MOST_SCRATCH: Final = 1 << 16
"""Bytes of a thread's scratch, as ``custom_ops.h`` has them."""
MOST_RANK: Final = 16
_HEADER: Final = Path(__file__).with_name("custom_ops.h")


@dataclass(frozen=True)
class ServedRegion:
    """An operator called ``name``: the launch for each ISA, and the symbol of its kernel there."""

    name: str
    launches: Mapping[str, tuple[RegionLaunch, str]]


def check(region: RegionLaunch) -> None:
    """Raise NotServed for what the adapter has no C for."""
    known = set(_symbols(region.inputs))
    dims: list[Dim] = [*region.launch.args, region.launch.grid, region.launch.work]
    dims += [dim for value in region.outputs for dim in value.type.dims]
    needed = {name for dim in dims for name in names_in(dim)}
    needed |= {name for each in region.constraints for name in each.names}
    if not needed <= known:
        raise NotServed("sizes do not follow from those of its operands")
    if not isinstance(region.launch.scratch, int) or region.launch.scratch > MOST_SCRATCH:
        raise NotServed("its kernel needs more scratch memory than a thread's stack has")
    if any(len(value.type.dims) > MOST_RANK for value in (*region.inputs, *region.outputs)):
        raise NotServed(f"a value has more than {MOST_RANK} axes")


def adapter_source(regions: Sequence[ServedRegion], isas: Sequence[str]) -> str:
    """The translation unit that registers all of ``regions``, with kernels of ``isas``, the least first."""
    parts = [_HEADER.read_text(encoding="utf-8"), *_dim_helpers()]
    for region in regions:
        parts += [_compute(region.name, isa, *region.launches[isa]) for isa in isas]
        parts.append(_tables(region, isas))
    rows = ",\n".join(f"    {_row(region)}" for region in regions)
    parts.append(f"static const operation operations[] = {{\n{rows}\n}};\n")
    parts.append(
        '__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options, '
        "const OrtApiBase *base);\n"
        "OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {\n"
        f'    return register_all(options, base, "{FUNCTION_DOMAIN}", operations, {len(regions)});\n}}\n'
    )
    return "\n".join(parts)


def _dim_helpers() -> list[str]:
    return [text.replace("GW_INLINE", "__attribute__((unused)) static") for text in DIM_HELPERS.values()]


def _compute(name: str, isa: str, region: RegionLaunch, symbol: str) -> str:
    """The function that checks sizes, takes memory for outputs, and launches the kernel."""
    launch, names = region.launch, _names(region.inputs)
    lines = [f"    int64_t d{k}[{MOST_RANK}];" for k, _ in enumerate(region.inputs)]
    for k, value in enumerate(region.inputs):
        lines.append(f"    void *p{k} = input(c, {k}, {len(value.type.dims)}, d{k});")
    lines.append("    if (c->status)\n        return;")
    for size, (k, axis, scale) in _symbols(region.inputs).items():
        lines.append(f"    const int64_t {names[size]} = d{k}[{axis}] / {scale};")
        lines.append(f"    (void){names[size]};")
    for k, value in enumerate(region.inputs):
        for axis, dim in enumerate(value.type.dims):
            lines.append(f"    expect(c, d{k}[{axis}], {dim_text(dim, names)});")
    lines += [f"    expect(c, {_holds(each, names)}, 1);" for each in region.constraints]
    for k, value in enumerate(region.outputs):
        dims = ", ".join(dim_text(dim, names) for dim in value.type.dims) or "0"
        lines.append(f"    const int64_t s{k}[] = {{{dims}}};")
        number = len(region.inputs) + k
        lines.append(f"    void *p{number} = output(c, {k}, {len(value.type.dims)}, s{k});")
    args = ", ".join(dim_text(dim, names) for dim in launch.args) or "0"
    lines.append(f"    void *const buf[] = {{{', '.join(f'p{k}' for k in region.operands)}}};")
    lines.append(f"    const int64_t arg[] = {{{args}}};")
    grid, work = dim_text(launch.grid, names), dim_text(launch.work, names)
    lines.append(f"    run(c, {symbol}, buf, arg, {grid}, {work});")
    head = f"kernel_function {symbol};\nstatic void compute_{name}_{isa}(call *c) {{\n"
    return head + "\n".join(lines) + "\n}\n"


def _holds(constraint: Constraint, names: Mapping[str, str]) -> str:
    left, right = (dim_text(dim, names) for dim in (constraint.left, constraint.right))
    return f"({left}) {constraint.relation} ({right})"


def _tables(region: ServedRegion, isas: Sequence[str]) -> str:
    launch, _ = region.launches[isas[0]]
    inputs, outputs = (
        ", ".join(str(onnx_number(value.type.dtype)) for value in values)
        for values in (launch.inputs, launch.outputs)
    )
    functions = ", ".join(f"compute_{region.name}_{isa}" for isa in isas)
    return (
        f"static const int inputs_{region.name}[] = {{{inputs}}}, outputs_{region.name}[] = {{{outputs}}};\n"
        f"static void (*const levels_{region.name}[])(call *c) = {{{functions}}};\n"
    )


def _row(region: ServedRegion) -> str:
    launch, _ = next(iter(region.launches.values()))
    name = region.name
    misfit = f"{name}: its operands have other sizes than its kernel was made for"
    counts = f"{len(launch.inputs)}, {len(launch.outputs)}"
    return f'{{CUSTOM_OP, "{name}", "{misfit}", inputs_{name}, outputs_{name}, {counts}, levels_{name}}}'


def _symbols(inputs: Sequence[Value]) -> dict[str, tuple[int, int, int]]:
    """Sizes that inputs show: by symbol, the input, its axis, and what the size there is a multiple by."""
    found: dict[str, tuple[int, int, int]] = {}
    for k, value in enumerate(inputs):
        for axis, dim in enumerate(value.type.dims):
            scaled = scaled_symbol(dim) if isinstance(dim, Expr) else None
            if scaled is not None:
                found.setdefault(scaled[0], (k, axis, scaled[1]))
    return found


def _names(inputs: Sequence[Value]) -> dict[str, str]:
    return {size: f"n{k}_{identifier(size)}" for k, size in enumerate(_symbols(inputs))}
