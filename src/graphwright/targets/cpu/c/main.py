"""The main function in each generated file: it runs the kernels alone, compares them with naive loops, and
times them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import Buffer, Kernel, Level, written
from graphwright.ir.symbols import Dim, SymbolError, evaluate, minimum, product
from graphwright.targets.cpu.c.dims import dim_text, strides_of
from graphwright.targets.cpu.c.dtypes import C_TYPES
from graphwright.targets.cpu.c.extent import FIRST, TILE
from graphwright.targets.cpu.c.prelude import Prelude

_FLOATING: Final = {"f32": "FLOAT", "f64": "FLOAT", "f16": "HALF", "bf16": "BRAIN"}
_TILE_ROWS: Final = 8
_TILE_COLUMNS: Final = 64
"""The columns of the tile that an epilogue is called on."""
_MOST_SIZE: Final = 256
_MOST_ELEMENTS: Final = 1 << 22
"""The most elements of all operands at the default sizes of the program."""

_TEMPLATE = """\
#ifdef GRAPHWRIGHT_MAIN
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int32_t (*kernel_function)(void *const *, const int64_t *, int64_t, int64_t, void *);

@NAIVE@
static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { NO_FLOAT, FLOAT, HALF, BRAIN }; /* f32 and f64; f16; bf16 */

static int single; /* whether a size below 2 is given: an index of 1 may be out of range */

/* Floats between -1 and 1; elements of other types, which may be indices, are 0 or 1. */
static void *made_up(int64_t elements, int64_t size, int floating) {
    char *data = aligned_alloc(64, (size_t)((elements * size + 127) / 64 * 64));
    uint32_t state = 1;
    for (int64_t i = 0; i < elements; ++i) {
        state = state * 1664525u + 1013904223u;
        const double value = (double)(state >> 8) / (1 << 23) - 1;
        const uint32_t sign = state >> 31 << 15, digits = state >> 16;
        if (floating == HALF)
            ((uint16_t *)data)[i] = (uint16_t)(sign | 0x3800 | (digits & 0x3ff));
        else if (floating == BRAIN)
            ((uint16_t *)data)[i] = (uint16_t)(sign | 0x3f00 | (digits & 0x7f));
        else if (floating && size == 4)
            ((float *)data)[i] = (float)value;
        else if (floating && size == 8)
            ((double *)data)[i] = value;
        else
            memset(data + i * size, 0, (size_t)size), data[i * size] = (char)(single ? 0 : state >> 31);
    }
    return data;
}

static double worst(const void *a, const void *b, int64_t elements, int64_t size, int floating) {
    double error = 0;
    for (int64_t i = 0; i < elements; ++i) {
        double x, y;
        if (floating == HALF || floating == BRAIN) /* a unit in the last place may differ */
            x = 0, y = abs(((const uint16_t *)a)[i] - ((const uint16_t *)b)[i]) > 1;
        else if (floating && size == 4)
            x = ((const float *)a)[i], y = ((const float *)b)[i];
        else if (floating && size == 8)
            x = ((const double *)a)[i], y = ((const double *)b)[i];
        else
            x = 0, y = memcmp((const char *)a + i * size, (const char *)b + i * size, (size_t)size) != 0;
        const double off = fabs(x - y) / (1 + fabs(y));
        if (off > error)
            error = off;
    }
    return error;
}

/* Sizes of every kernel may be given in order; otherwise each is @SIZE@. */
static int run_all(int argc, char **argv) {
    int failed = 0;
    int64_t arg[64];
    for (int i = 0; i < 64; ++i)
        arg[i] = i + 1 < argc ? atoll(argv[i + 1]) : @SIZE@;
    for (int i = 1; i < argc; ++i)
        single |= atoll(argv[i]) < 2;
    (void)arg;
@RUNS@
    return failed;
}

__attribute__((target("arch=x86-64"))) int main(int argc, char **argv) {
    if (@MISSING@) {
        puts("not run, because this CPU has no @ISA@");
        return 0;
    }
    return run_all(argc, argv);
}
#endif
"""

_RUN = """\
    {{ /* {name} */
@SIZES@
        const int64_t grid = {grid}, size[] = {{{sizes}}};
        const int floating[] = {{{floating}}};
        int64_t elements[] = {{{elements}}};
        double reach[{first} + {count}] = {{0}}; /* bytes; more than elements if a size depends on others */
        {name}_extent(arg, 64, {count}, reach);
        for (int i = 0; i < {count}; ++i)
            elements[i] = (int64_t)fmax((double)elements[i], fabs(reach[{first} + i]) / (double)size[i]);
        void *buf[{count}], *check[{count}], *scratch = aligned_alloc(64, (size_t)({scratch} + 64) / 64 * 64);
        for (int i = 0; i < {count}; ++i) {{
            buf[i] = made_up(elements[i], size[i], floating[i]);
            check[i] = made_up(elements[i], size[i], floating[i]);
        }}
        {name}(buf, arg, 0, grid, scratch);
        naive_{name}(check, arg, 0, grid, scratch);
        for (int i = 0; i < {count}; ++i) {{
            const double off = worst(buf[i], check[i], elements[i], size[i], floating[i]);
            if (off > 1e-4)
                failed = 1, printf("{name}: operand %d is off by %g\\n", i, off);
        }}
        int64_t bytes = 0, runs = 0;
        for (int i = 0; i < {count}; ++i)
            bytes += elements[i] * size[i];
        const double start = seconds();
        double spent = 0;
        for (; spent < 0.2; ++runs, spent = seconds() - start)
            {name}(buf, arg, 0, grid, scratch);
        const double each = spent / (double)runs;
        printf("{name}: %.3f us, %.1f GB/s\\n", 1e6 * each, 1e-9 * (double)bytes / each);
    }}"""


_RUN_HOOK = """\
    {{ /* {name}, on one tile: operands are as long as it reaches */
@SIZES@
        const int64_t rows = {rows}, cols = {cols}, ld = {results} * cols, size[] = {{{sizes}}};
        const int floating[] = {{{floating}}};
        double reach[{first} + {count}] = {{0}};
        reach[{tile}] = 1, reach[{tile} + 1] = rows, reach[{tile} + 2] = cols;
        {name}_extent(arg, 64, {operands}, reach);
        int64_t elements[{count}] = {{rows * ld}};
        for (int i = 1; i < {count}; ++i)
            elements[i] = (int64_t)fabs(reach[{first} + i - 1]) / size[i];
        void *buf[{count}], *check[{count}];
        for (int i = 0; i < {count}; ++i) {{
            buf[i] = made_up(elements[i], size[i], floating[i]);
            check[i] = made_up(elements[i], size[i], floating[i]);
        }}
        {name}(buf + 1, arg, buf[0], ld, 0, 0, rows, 0, cols);
        naive_{name}(check + 1, arg, check[0], ld, 0, 0, rows, 0, cols);
        for (int i = 0; i < {count}; ++i) {{
            const double off = worst(buf[i], check[i], elements[i], size[i], floating[i]);
            if (off > 1e-4)
                failed = 1, printf("{name}: operand %d is off by %g\\n", i - 1, off);
        }}
        const double start = seconds();
        double spent = 0;
        int64_t runs = 0;
        for (; spent < 0.2; spent = seconds() - start)
            for (int i = 0; i < 100; ++i, ++runs)
                {name}(buf + 1, arg, buf[0], ld, 0, 0, rows, 0, cols);
        const double elapsed = 1e9 * spent / (double)(runs * rows * cols);
        printf("{name}: %.4f ns an element\\n", elapsed);
    }}"""


def main_text(
    launches: Sequence[tuple[Kernel, Dim, Dim]],
    hooks: Sequence[Kernel],
    naive: Sequence[str],
    prelude: Prelude,
) -> str:
    """The program for kernels with their grids and scratch, and for epilogues; ``naive`` are the scalar
    versions of all, ``naive_NAME``.
    """
    runs = [_run(kernel, grid, scratch, prelude) for kernel, grid, scratch in launches]
    runs += [_run_hook(hook, prelude) for hook in hooks]
    size = min((_usual_size(kernel) for kernel, _, _ in launches), default=_MOST_SIZE)
    text = _TEMPLATE.replace("@NAIVE@", "\n".join(naive)).replace("@SIZE@", str(size))
    missing = " || ".join(f'!__builtin_cpu_supports("{feature}")' for feature in prelude.isa.features)
    text = text.replace("@MISSING@", missing).replace("@ISA@", f"x86-64-{prelude.isa.name}")
    return text.replace("@RUNS@", "\n".join(runs))


def _usual_size(kernel: Kernel) -> int:
    """The default value of each size of ``kernel``, with which its operands are not too large to run."""
    size = _MOST_SIZE
    while size > 1 and _elements(kernel, size) > _MOST_ELEMENTS:
        size //= 2
    return size


def _elements(kernel: Kernel, size: int) -> int:
    try:
        sizes = dict.fromkeys(kernel.sizes, size)
        return sum(evaluate(_span(buffer), sizes) for buffer in kernel.parameters)
    except SymbolError:  # a size that must be another one's multiple, say
        return 0


def _span(buffer: Buffer) -> Dim:
    """The number of elements from the first to the last."""
    if buffer.strides is None:
        return product(buffer.shape)
    span: Dim = 1
    for extent, stride in zip(buffer.shape, strides_of(buffer), strict=True):
        span = span + (extent - 1) * stride
    return span


def _run_hook(hook: Kernel, prelude: Prelude) -> str:
    names = {size: f"size_{i}_" for i, size in enumerate(s for s in hook.sizes if s not in HOOK_SIZES)}
    rows, columns = _tile(hook)
    text = _RUN_HOOK.format(
        name=hook.name,
        rows=dim_text(rows, names),
        cols=dim_text(columns, names),
        results=product(hook.parameters[0].shape[1:-1]),
        first=FIRST,
        tile=TILE,
        operands=len(hook.parameters) - 1,
        **_types(hook),
    )
    prelude.dim(text)
    return text.replace("@SIZES@", _arguments(names, hook.scalars))


def _tile(hook: Kernel) -> tuple[Dim, Dim]:
    """Rows and columns of a tile that fits into what ``hook`` stores."""
    stored = written(hook)
    shape = next((b.shape for b in hook.parameters if b.name in stored and b.level is Level.GLOBAL), ())
    rows, columns = (1, 1, *shape)[-2:]
    return minimum(_TILE_ROWS, rows), minimum(_TILE_COLUMNS, columns)


def _types(kernel: Kernel) -> dict[str, object]:
    """The parameters of the template that describe the elements of the operands."""
    return {
        "count": len(kernel.parameters),
        "sizes": ", ".join(f"sizeof({C_TYPES[b.dtype.name]})" for b in kernel.parameters),
        "floating": ", ".join(map(_kind, kernel.parameters)),
    }


def _kind(buffer: Buffer) -> str:
    """How elements are made up and compared."""
    return _FLOATING.get(buffer.dtype.name, "NO_FLOAT")


def _run(kernel: Kernel, grid: Dim, scratch: Dim, prelude: Prelude) -> str:
    names = {size: f"size_{i}_" for i, size in enumerate(kernel.sizes)}
    text = _RUN.format(
        name=kernel.name,
        grid=dim_text(grid, names),
        scratch=dim_text(scratch, names),
        elements=", ".join(dim_text(_span(buffer), names) for buffer in kernel.parameters),
        first=FIRST,
        **_types(kernel),
    )
    prelude.dim(text)
    return text.replace("@SIZES@", _arguments(names, kernel.scalars))


def _arguments(sizes: Mapping[str, str], scalars: Sequence[str]) -> str:
    """Declarations of the sizes, and made-up scalars: whole numbers, as zero points and bounds are."""
    lines = [
        line
        for k, n in enumerate(sizes.values())
        for line in (f"const int64_t {n} = arg[{k}];", f"(void){n};")
    ]
    lines += [
        f"memcpy(arg + {k}, &(float){{{k}}}, sizeof(float));" for k, _ in enumerate(scalars, len(sizes))
    ]
    return "\n".join(f"        {line}" for line in lines)
