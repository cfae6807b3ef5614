"""Runs of pixels copied from rows of an image to rows of a panel: C for lanes of any type of 32 bits."""

from __future__ import annotations

from typing import Final

from graphwright.kernels.library.isa import Isa


def copy_runs(isa: Isa, element: str, vector: str, whole: str, part: str) -> str:
    """The function ``copy_runs`` for ``element``, in vectors of type ``vector``.

    Functions ``whole_load`` and ``whole_store`` move a vector, ``part_load_n`` and ``part_store_n`` some of
    its lanes.
    """
    text = _TEXT.replace("@EVEN@", ", ".join(str(2 * i) for i in range(isa.lanes)))
    for name, meant in (("ELEMENT", element), ("VECTOR", vector), ("WHOLE", whole), ("PART", part)):
        text = text.replace(f"@{name}@", meant)
    return text


_TEXT: Final = """
/* to[c][i] = from[c][i * step] for n pixels of each of some planes. */
static void copy_runs(const @ELEMENT@ *from, int64_t from_c, int64_t step, int64_t n, int64_t planes,
                      @ELEMENT@ *to, int64_t to_c) {
    if (step == 1 && n == NR) {
        for (; planes > 0; planes--, from += from_c, to += to_c)
            for (int v = 0; v < NR; v += VL)
                @WHOLE@_store(to + v, @WHOLE@_load(from + v));
        return;
    }
    if (step == 1) {
        for (; n > VL; n -= VL, from += VL, to += VL)
            for (int64_t c = 0; c < planes; c++)
                @WHOLE@_store(to + c * to_c, @WHOLE@_load(from + c * from_c));
        for (int64_t c = 0; c < planes; c++)
            @PART@_store_n(to + c * to_c, @PART@_load_n(from + c * from_c, n), n);
        return;
    }
    if (step == 2) {
        for (; n > 0; n -= VL, from += 2 * VL, to += VL) {
            const int64_t now = smaller(n, VL), low = smaller(2 * now - 1, VL), high = 2 * now - 1 - low;
            for (int64_t c = 0; c < planes; c++) {
                const @ELEMENT@ *p = from + c * from_c;
                const @VECTOR@ a = @PART@_load_n(p, low), b = @PART@_load_n(p + (high ? VL : 0), high);
                @PART@_store_n(to + c * to_c, __builtin_shufflevector(a, b, @EVEN@), now);
            }
        }
        return;
    }
    for (; planes > 0; planes--, from += from_c, to += to_c)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}
"""
