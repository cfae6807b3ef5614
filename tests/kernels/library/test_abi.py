"""One definition of a kernel's operands and arguments: what Python orders is where C reads it."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import pytest

from graphwright.kernels.library.abi import Abi
from graphwright.targets.cpu.isa import V3
from graphwright.targets.cpu.toolchain import compile_shared, find_toolchain

ABI = Abi(
    "demo",
    ("x", "w", "y"),
    ("rows", "double scale", "n[3]", "axis first", "axis others[2]"),
    {"axis": ("size", "double step")},
)
NAMES = (
    *("rows", "scale", "n0", "n1", "n2", "first_size", "first_step"),
    *("size0", "step0", "size1", "step1"),
)
_READ = """
#include "cpu/vector.h"
@ABI@
GW_EXPORT int64_t position(int which) { return which == 0 ? DEMO_X : which == 1 ? DEMO_W : DEMO_Y; }
GW_EXPORT int64_t counts(int which) { return which ? DEMO_ARGS : DEMO_OPERANDS; }
GW_EXPORT double read(const int64_t *arg, int which) {
    const struct demo_args *a = demo_args(arg);
    const double all[] = {(double)a->rows, a->scale, (double)a->n[0], (double)a->n[1], (double)a->n[2],
                          (double)a->first.size, a->first.step, (double)a->others[0].size, a->others[0].step,
                          (double)a->others[1].size, a->others[1].step};
    return all[which];
}
"""


def bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def test_arguments_have_the_names_of_their_fields() -> None:
    assert ABI.args == NAMES


def test_c_reads_the_arguments_in_the_order_of_python(tmp_path: Path) -> None:
    vector = (Path(__file__).parents[3] / "src/graphwright/targets/cpu/vector.h").read_text()
    text = _READ.replace('#include "cpu/vector.h"', vector).replace("@ABI@", ABI.c_text())
    path = tmp_path / "abi.so"
    path.write_bytes(compile_shared(text, V3, find_toolchain()))
    library = ctypes.CDLL(str(path))
    library.read.restype = ctypes.c_double
    first, others = (7, bits(0.5)), (8, bits(0.25), 9, bits(-2.0))
    values = ABI.values(others=others, first=first, n=(4, 5, 6), scale=bits(1.5), rows=3)
    arg = (ctypes.c_int64 * len(values))(*values)
    found = [library.read(arg, which) for which in range(len(NAMES))]
    assert found == [3, 1.5, 4, 5, 6, 7, 0.5, 8, 0.25, 9, -2.0]
    assert [library.position(which) for which in range(3)] == [0, 1, 2]
    assert [library.counts(which) for which in range(2)] == [3, len(NAMES)]


def test_operands_are_ordered_by_name() -> None:
    assert ABI.ordered(y=3, x=1, w=2) == (1, 2, 3)
    assert ABI.positions("y", "x") == (2, 0)


@pytest.mark.parametrize("given", [{"x": 1, "w": 2}, {"x": 1, "w": 2, "y": 3, "z": 4}])
def test_a_missing_or_unknown_operand_is_an_error(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"demo takes x, w, y: wrong or missing \['[yz]'\]"):
        ABI.ordered(**given)


@pytest.mark.parametrize(
    ("change", "wrong"), [({"rows": (1, 2)}, "rows"), ({"n": (1, 2)}, "n"), ({"more": 1}, "more")]
)
def test_a_wrong_argument_is_an_error(change: dict[str, int | tuple[int, ...]], wrong: str) -> None:
    values = {"rows": 1, "scale": 0, "n": (1, 2, 3), "first": (1, 0), "others": (1, 0, 2, 0)}
    with pytest.raises(ValueError, match=rf"wrong or missing \['{wrong}'\]"):
        ABI.values(**{**values, **change})


def test_an_invalid_field_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="'n\\[x\\]' is not a field"):
        assert Abi("demo", (), ("n[x]",)).args
