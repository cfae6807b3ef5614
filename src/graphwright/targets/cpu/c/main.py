"""The small program in each generated file: runs its kernels alone, checks them against naive loops, times
them."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.symbols import Dim, product
from graphwright.targets.cpu.c.dims import dim_text, strides_of
from graphwright.targets.cpu.c.support import C_TYPES, Support

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

static void *made_up(int64_t elements, int64_t size, int floating) {
    char *data = aligned_alloc(64, (size_t)((elements * size + 127) / 64 * 64));
    uint32_t state = 1;
    for (int64_t i = 0; i < elements; ++i) {
        state = state * 1664525u + 1013904223u;
        const double value = (double)(state >> 8) / (1 << 23) - 1;
        if (floating && size == 4)
            ((float *)data)[i] = (float)value;
        else if (floating && size == 8)
            ((double *)data)[i] = value;
        else
            memset(data + i * size, 0, (size_t)size), data[i * size] = (char)(state >> 31);
    }
    return data;
}

static double worst(const void *a, const void *b, int64_t elements, int64_t size, int floating) {
    double error = 0;
    for (int64_t i = 0; i < elements; ++i) {
        double x, y;
        if (floating && size == 4)
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

/* Sizes of every kernel may be given in order; otherwise each is 256. */
int main(int argc, char **argv) {
    int failed = 0;
    int64_t arg[64];
    for (int i = 0; i < 64; ++i)
        arg[i] = i + 1 < argc ? atoll(argv[i + 1]) : 256;
    (void)arg;
@RUNS@
    return failed;
}
#endif
"""

_RUN = """\
    {{ /* {name} */
@SIZES@
        const int64_t grid = {grid}, elements[] = {{{elements}}}, size[] = {{{sizes}}};
        const int floating[] = {{{floating}}};
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


def main_text(launches: Sequence[tuple[Kernel, Dim, Dim]], naive: Sequence[str], support: Support) -> str:
    """The program for kernels with their grids and scratch; ``naive`` are their scalar versions
    ``naive_NAME``."""
    runs = "\n".join(_run(kernel, grid, scratch, support) for kernel, grid, scratch in launches)
    return _TEMPLATE.replace("@NAIVE@", "\n".join(naive)).replace("@RUNS@", runs)


def _run(kernel: Kernel, grid: Dim, scratch: Dim, support: Support) -> str:
    names = {size: f"size_{i}_" for i, size in enumerate(kernel.sizes)}
    spans = []
    for buffer in kernel.parameters:
        span: Dim = 1
        for extent, stride in zip(buffer.shape, strides_of(buffer), strict=True):
            span = span + (extent - 1) * stride
        spans.append(dim_text(span if buffer.strides is not None else product(buffer.shape), names))
    text = _RUN.format(
        name=kernel.name,
        grid=dim_text(grid, names),
        scratch=dim_text(scratch, names),
        count=len(kernel.parameters),
        elements=", ".join(spans),
        sizes=", ".join(f"sizeof({C_TYPES[b.dtype.name]})" for b in kernel.parameters),
        floating=", ".join("1" if b.dtype.name in ("f32", "f64") else "0" for b in kernel.parameters),
    )
    support.dim(text)
    declared = "\n".join(
        f"        const int64_t {n} = arg[{i}];\n        (void){n};" for i, n in enumerate(names.values())
    )
    return text.replace("@SIZES@", declared)
