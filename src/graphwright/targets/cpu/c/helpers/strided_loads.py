"""Strided loads of every second, third or fourth element: whole vectors and shuffles."""

from __future__ import annotations

from typing import Final

SMALL_STEPS: Final = ("2", "3", "4")


def load_step(step: int, lanes: int) -> str:
    """The template of ``load_step_N(p)``, in which lane i is ``p[step * i]``. The last vector ends at the
    last requested element, so that nothing beyond it is read.
    """
    last = step * (lanes - 1) - (lanes - 1)
    starts = [*(part * lanes for part in range(step - 1)), last]
    lines = [f"    const @V x{k} = *(const @V_any *)(p + {start});" for k, start in enumerate(starts)]
    result = "x0"
    for k in range(1, step):
        order = []
        for lane in range(lanes):
            place = step * lane
            if place >= starts[k] and (k == step - 1 or place < starts[k] + lanes) and place >= k * lanes:
                order.append(lanes + place - starts[k])
            else:
                order.append(place if k == 1 and place < lanes else lane)
        lines.append(
            f"    const @V y{k} = __builtin_shufflevector({result}, x{k}, {', '.join(map(str, order))});"
        )
        result = f"y{k}"
    body = "\n".join(lines)
    return f"GW_INLINE @V NAME(const @T *p) {{\n{body}\n    return {result};\n}}"
