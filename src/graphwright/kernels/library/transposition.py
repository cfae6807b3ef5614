"""Transposition in registers of blocks of elements of 1, 2, 4 or 8 bytes, as C.

Runs of 16 bytes of the source go straight to the lanes of registers as they are loaded, which leaves the
fewest shuffles; a band of the result is a vector wide, or a cache line, and written row after row.
"""

from __future__ import annotations

from typing import Final

from graphwright.targets.cpu.isa import Isa

_SIZES: Final = (1, 2, 4, 8)


def c_text(isa: Isa) -> str:
    """Tables of ``block_copy`` by element size, after ``rows.c_text``: ``TRANSPOSE`` and ``STREAMED``."""
    streaming = _STREAMING.replace("@REG@", "v" if isa.vector_bytes == 64 else "x")
    lanes = _LANES_V4 if isa.vector_bytes == 64 else _LANES_V3
    blocks = (_blocks(size, isa) for size in _SIZES)
    return "\n".join([streaming, lanes, *blocks, _PLAIN, _TABLES])


def _blocks(size: int, isa: Isa) -> str:
    lines = sorted({isa.vector_bytes, 64})
    text = "\n".join([_band(size, 16, 16), *(_band(size, isa.vector_bytes, n) for n in lines), _BLOCK])
    return text.replace("@S@", str(size)).replace("@W@", str(isa.vector_bytes))


def _band(size: int, width: int, line: int) -> str:
    """``line`` bytes of columns of the result, 16 bytes of rows at a time. T registers, of which lane k holds
    a run of row k * T + i of the source, are transposed by perfect shuffles: log2(T) rounds interleave
    register i with register i + T/2."""
    name, runs, count = f"t{size}x{width}", 16 // size, width // size
    lanes = [f"at_{k} + from" for k in range(width // 16)]
    lines = [
        f"/* rows >= {runs} rows of dst, {line // size} elements each: as many columns of src. The last tile",
        "   overlaps the one before. */",
        f"GW_INLINE void band_{size}x{line}(char *dst, int64_t d, const char *src, int64_t s, int64_t rows,",
        "                       int stream) {",
        f"    for (int64_t i = 0; i < rows; i += {runs}) {{",
        f"        const int64_t row = i < rows - {runs} ? i : rows - {runs};",
        f"        for (int64_t part = 0; part < {line // width}; part++) {{",
        f"            const char *at_0 = src + part * {count} * s + row * {size};",
        *(f"            const char *at_{k} = at_{k - 1} + {runs} * s;" for k in range(1, len(lanes))),
        f"            char *to = dst + row * d + part * {width};",
        "            int64_t from = 0;",
    ]
    for i in range(runs):
        lines.append(f"            const {name} r0_{i} = ({name})lanes_{width}({', '.join(lanes)});")
        lines += ["            from += s;"] if i + 1 < runs else []
    lines += [f"            {step}" for step in _shuffles(name, runs, count)]
    for i in range(runs):
        put = f"put_{width}(to, (v{width})r{runs.bit_length() - 1}_{i}, stream);"
        lines.append(f"            {put}")
        lines += ["            to += d;"] if i + 1 < runs else []
    return "\n".join([*lines, "        }", "    }", "}"])


def _shuffles(name: str, runs: int, count: int) -> list[str]:
    """The rounds: registers ``r0_i`` to ``r{log2(runs)}_i``."""
    half = runs // 2
    low, high = (
        ", ".join(
            f"{lane + k}, {lane + k + count}" for lane in range(first, count, runs) for k in range(half)
        )
        for first in (0, half)
    )
    lines = []
    for after in range(1, runs.bit_length()):
        for i in range(half):
            pair = f"r{after - 1}_{i}, r{after - 1}_{i + half}"
            lines += [
                f"const {name} r{after}_{2 * i} = __builtin_shufflevector({pair}, {low});",
                f"const {name} r{after}_{2 * i + 1} = __builtin_shufflevector({pair}, {high});",
            ]
    return lines


_STREAMING: Final = """
typedef int32_t v16 __attribute__((vector_size(16)));
typedef int32_t v16_any __attribute__((vector_size(16), aligned(1), may_alias));
typedef int32_t v_any __attribute__((vector_size(sizeof(vi)), aligned(1), may_alias));

/* p is aligned to the vector. */
GW_INLINE void put_past_caches(char *p, vi x) {
    __asm__("vmovntps %1, %0" : "=m"(*(vi_any *)p) : "@REG@"(x));
}
/* Streamed stores are seen by other threads after this. */
GW_INLINE void end_stream(void) { __asm__ volatile("sfence" ::: "memory"); }

GW_INLINE v16 lanes_16(const char *a) { return *(const v16_any *)a; }
GW_INLINE void put_16(char *p, v16 x, int stream) {
    (void)stream;
    *(v16_any *)p = x;
}
"""

_LANES_V3: Final = """
typedef vi v32;
GW_INLINE v32 lanes_32(const char *a, const char *b) {
    return __builtin_shufflevector(lanes_16(a), lanes_16(b), 0, 1, 2, 3, 4, 5, 6, 7);
}
GW_INLINE void put_32(char *p, v32 x, int stream) {
    if (stream)
        put_past_caches(p, x);
    else
        *(v_any *)p = x;
}
"""

_LANES_V4: Final = """
typedef vi v64;
/* Inserted from memory: compilers join registers instead, which takes a shuffle. */
GW_INLINE v64 lanes_64(const char *a, const char *b, const char *c, const char *d) {
    v64 x;
    __asm__("vmovups %1, %x0" : "=v"(x) : "m"(*(const v16_any *)a));
    __asm__("vinserti32x4 $1, %1, %0, %0" : "+v"(x) : "m"(*(const v16_any *)b));
    __asm__("vinserti32x4 $2, %1, %0, %0" : "+v"(x) : "m"(*(const v16_any *)c));
    __asm__("vinserti32x4 $3, %1, %0, %0" : "+v"(x) : "m"(*(const v16_any *)d));
    return x;
}
GW_INLINE void put_64(char *p, v64 x, int stream) {
    if (stream)
        put_past_caches(p, x);
    else
        *(v_any *)p = x;
}
"""

_BLOCK: Final = """
/* dst contiguous along columns, src along rows; band by band, the last of which overlaps the one before. */
static void transpose_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                          int64_t cols) {
    enum { T = 16 / @S@, WIDE = @W@ / @S@ };
    const int64_t down = d[0], across = s[1];
    if (rows < T || cols < T) {
        rows_@S@(dst, d, src, s, rows, cols);
    } else if (cols < WIDE) {
        for (int64_t j = 0; j < cols; j += T) {
            const int64_t at = j < cols - T ? j : cols - T;
            band_@S@x16(dst + at * @S@, down, src + at * across, across, rows, 0);
        }
    } else {
        for (int64_t j = 0; j < cols; j += WIDE) {
            const int64_t at = j < cols - WIDE ? j : cols - WIDE;
            band_@S@x@W@(dst + at * @S@, down, src + at * across, across, rows, 0);
        }
    }
}
/* Whole lines of dst go past the caches. */
static void streamed_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                         int64_t cols) {
    enum { T = 16 / @S@, LINE = 64 / @S@ };
    const int64_t down = d[0], across = s[1];
    int64_t whole = rows < T || ((uintptr_t)dst | (uintptr_t)down) % @W@ ? 0 : cols - cols % LINE;
    for (int64_t j = 0; j < whole; j += LINE)
        band_@S@x64(dst + j * @S@, down, src + j * across, across, rows, 1);
    if (whole < cols) transpose_@S@(dst + whole * @S@, d, src + whole * across, s, rows, cols - whole);
}
"""

_PLAIN: Final = """
/* dst contiguous along columns, src along rows: squares of one cache line keep both sides in L1. */
static void transpose_16(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                         int64_t cols) {
    enum { LINE = 64 / 16 };
    for (int64_t i = 0; i < rows; i += LINE)
        for (int64_t j = 0; j < cols; j += LINE)
            rows_16(dst + i * d[0] + j * 16, d, src + i * 16 + j * s[1], s, rows - i < LINE ? rows - i : LINE,
                    cols - j < LINE ? cols - j : LINE);
}
"""

_TABLES: Final = """
static block_copy *const TRANSPOSE[] = {transpose_1, transpose_2, transpose_4, transpose_8, transpose_16};
static block_copy *const STREAMED[] = {streamed_1, streamed_2, streamed_4, streamed_8, transpose_16};
"""
