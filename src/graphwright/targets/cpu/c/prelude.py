"""The prelude of a translation unit: its types and helper functions, each defined when it is first used. The
type of a vector of 16 f32 is ``f32x16``.
"""

from __future__ import annotations

import re
from typing import Final

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.types import DTYPES, F32, F64, I32, DType
from graphwright.targets.cpu.c.dims import DIM_HELPERS
from graphwright.targets.cpu.c.dtypes import C_TYPES
from graphwright.targets.cpu.c.helpers.doubles import DOUBLES
from graphwright.targets.cpu.c.helpers.exponentials_v3 import EXPONENTIALS_V3
from graphwright.targets.cpu.c.helpers.halves import HALVES, halves
from graphwright.targets.cpu.c.helpers.polynomials import POLYNOMIALS
from graphwright.targets.cpu.c.helpers.scalars import SCALAR_HELPERS
from graphwright.targets.cpu.c.helpers.vectors import vector_template
from graphwright.targets.cpu.isa import Isa

_BY_VECTOR: Final = {F32: POLYNOMIALS.keys() | EXPONENTIALS_V3.keys(), F64: DOUBLES.keys()}
"""Functions whose scalar version calls the vector version."""

_SCHEDULED: Final = [
    f"""\
#if defined(__GNUC__) && !defined(__clang__) /* interleave unrolled steps; clang does so anyway */
#pragma GCC optimize({options})
#endif
"""
    for options in ('"schedule-insns"', '"schedule-insns", "sched-pressure"')
]
"""GCC options for 32 registers, and for 16, where scheduling must also limit register pressure."""

_HEAD: Final = """\
#include <stdint.h>

#define GW_EXPORT __attribute__((visibility("default")))
#define GW_INLINE static inline __attribute__((always_inline, unused))
"""


class Prelude:
    """The helper functions and types that a translation unit has used so far, in order of definition."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.defined: dict[str, str] = {}

    def text(self, for_library: bool = False) -> str:
        """The text of the prelude; ``for_library`` if they are included in handwritten C, which
        is tuned to the number of registers.
        """
        narrow = self.isa.vector_bytes < 64
        scheduled = "" if narrow and for_library else _SCHEDULED[narrow]
        return scheduled + _HEAD + "\n" + "\n".join(text for text in self.defined.values() if text) + "\n"

    def define(self, name: str, text: str) -> str:
        """Adds the definition ``text`` of ``name``, once; returns ``name``."""
        self.defined.setdefault(name, text)
        return name

    def dim(self, text: str) -> str:
        """A C expression from :func:`dim_text`; defines the functions that it calls."""
        for name in re.findall(r"\bdim_(\w+)\(", text):
            self.define(f"dim_{name}", DIM_HELPERS[name])
        return text

    def vector(self, dtype: DType, lanes: int) -> str:
        """The C type of ``lanes`` elements of a plain dtype; also defines its unaligned version
        ``..._any``.
        """
        name = f"{dtype}x{lanes}"
        size, ctype = dtype.bytes * lanes, C_TYPES[dtype.name]
        attributes = f"vector_size({size}), aligned({dtype.bytes}), may_alias"
        any_type = f"typedef {ctype} {name}_any __attribute__(({attributes}));"
        return self.define(name, f"typedef {ctype} {name} __attribute__((vector_size({size})));\n{any_type}")

    def mask(self, lanes: int) -> str:
        """The C type of a mask of ``lanes`` lanes."""
        return self.vector(I32, lanes)

    def lane_mask(self, dtype: DType, lanes: int) -> str:
        """The C type of a comparison of vectors of a plain dtype."""
        return self.vector(DTYPES[f"i{dtype.bits}"], lanes)

    def scalar(self, function: str, dtype: DType) -> str:
        """The name of a scalar helper such as ``div_i32``."""
        name = f"{function}_{dtype}"
        if name in self.defined:
            return name
        if function in _BY_VECTOR.get(dtype, ()):
            return self.define(name, self._by_vector(function, dtype, name))
        helper = SCALAR_HELPERS.get(function)
        template = helper(dtype) if helper else None
        if template is None:
            raise ToolchainError(Diagnostic("emit-function", f"no C code for {function} of {dtype}"))
        for needed in re.findall(r"@(\w+)@", template):
            self.scalar(needed, dtype)
        body = re.sub(r"@(\w+)@", rf"\1_{dtype}", template)
        return self.define(name, body.replace("NAME", name).replace("@T", C_TYPES[dtype.name]))

    def _by_vector(self, function: str, dtype: DType, name: str) -> str:
        """A scalar function that gives the same bits as the vector function."""
        lanes, ctype = self.isa.vector_bytes // dtype.bytes, C_TYPES[dtype.name]
        call = self.call(function, dtype, lanes, self.call("splat", dtype, lanes, "x"))
        vector = self.vector(dtype, lanes)
        return f"GW_INLINE {ctype} {name}({ctype} x) {{\n    const {vector} y = {call};\n    return y[0];\n}}"

    def function(self, function: str, dtype: DType, lanes: int) -> str:
        """The name of a vector helper such as ``exp_f32x16``; if there is no vector version, a loop over the
        scalar one.
        """
        name = f"{function}_{dtype}x{lanes}"
        if name in self.defined:
            return name
        if function in HALVES:
            return self._by_halves(name, *HALVES[function], dtype, lanes)
        if function == "quotient_wide" and dtype != F64:
            return self.function(function, F64, lanes)
        template = vector_template(function, dtype, lanes, self.isa)
        if template is None:
            return self.define(name, self._by_lanes(function, dtype, lanes, name))
        return self.define(name, self.expand(template, name, dtype, lanes))

    def _by_halves(self, name: str, function: str, operands: str, dtype: DType, lanes: int) -> str:
        half = lanes // 2
        self.vector(DTYPES["u64"], half)
        wide = self.function(function, F64, half)
        types = self.vector(dtype, lanes), self.vector(dtype, half), self.vector(F64, half)
        return self.define(name, halves(name, wide, operands, *types, lanes))

    def call(self, function: str, dtype: DType, lanes: int, *operands: str) -> str:
        """A call of a vector helper."""
        return f"{self.function(function, dtype, lanes)}({', '.join(operands)})"

    def expand(self, template: str, name: str, dtype: DType, lanes: int) -> str:
        """Fills a template: ``@V`` is the vector, ``@T`` its element, ``@I`` lane masks, ``@M`` masks,
        ``@name@`` helpers.
        """
        helpers = {found: self.function(found, dtype, lanes) for found in re.findall(r"@(\w+)@", template)}
        text = re.sub(r"@(\w+)@", lambda m: helpers[m[1]], template)
        words = {
            "V": self.vector(dtype, lanes),
            "I": self.lane_mask(dtype, lanes),
            "M": self.mask(lanes),
            "T": C_TYPES[dtype.name],
            "L": str(lanes),
            "REG": "v" if self.isa.vector_bytes == 64 else "x",
            "SUFFIX": {4: "s", 8: "d"}.get(dtype.bytes, ""),
            "QUAD": {4: "d", 8: "q"}.get(dtype.bytes, ""),
            "BITS": str(dtype.bits),
        }
        text = re.sub(r"@([A-Z]+)(?![A-Z(])", lambda m: words[m[1]], text)
        text = re.sub(
            r"@EACH\((.*?)\)@", lambda m: ", ".join(m[1].replace("#", str(i)) for i in range(lanes)), text
        )
        rounding = "vrndscale" if self.isa.vector_bytes == 64 else "vround"
        return text.replace("NAME", name).replace("VROUND", rounding)

    def _by_lanes(self, function: str, dtype: DType, lanes: int, name: str) -> str:
        scalar, vector = self.scalar(function, dtype), self.vector(dtype, lanes)
        head = self.defined[scalar].split(")", 1)[0]
        operands = [f"{c}" for c in "abc"[: head.count(",") + 1]]
        declared = ", ".join(f"{vector} {o}" for o in operands)
        call = f"{scalar}({', '.join(f'{o}[i]' for o in operands)})"
        return (
            f"GW_INLINE {vector} {name}({declared}) {{\n    {vector} y;\n"
            f"    for (int i = 0; i < {lanes}; ++i)\n        y[i] = {call};\n    return y;\n}}"
        )

    def reduce(self, combiner: str, dtype: DType, lanes: int) -> str:
        """The name of a helper that combines all lanes of a vector, by halves."""
        name = f"reduce_{combiner}_{dtype}x{lanes}"
        if name in self.defined:
            return name
        vector = self.vector(dtype, lanes)
        lines = [f"GW_INLINE {C_TYPES[dtype.name]} {name}({vector} x) {{"]
        half = lanes // 2
        while half:
            order = ", ".join(str(i ^ half) for i in range(lanes))
            turned = f"__builtin_shufflevector(x, x, {order})"
            lines.append(f"    x = {self.combine(combiner, dtype, lanes, 'x', turned)};")
            half //= 2
        return self.define(name, "\n".join([*lines, "    return x[0];", "}"]))

    def combine(self, combiner: str, dtype: DType, lanes: int, a: str, b: str) -> str:
        """``a combiner b`` for vectors."""
        sign = {"add": "+", "mul": "*", "and": "&", "or": "|"}.get(combiner)
        return f"{a} {sign} {b}" if sign else self.call(combiner, dtype, lanes, a, b)
