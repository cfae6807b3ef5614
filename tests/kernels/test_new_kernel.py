"""A kernel is a folder: one is found, built, chosen for its op and run from a folder outside of the package.

The folder ``new_kernel/activation`` is what CONTRIBUTING.md tells to write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright.kernels as kernels
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import evaluate, symbol
from graphwright.ir.types import F16, F32, tensor
from graphwright.kernels.candidates import registry
from graphwright.kernels.candidates.attempt import attempt
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.write import source_modules
from graphwright.ops.nn.activations import LeakyRelu
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.target import CpuTarget
from tests.kernels.library.cases import chunkings, each_isa, guard
from tests.kernels.library.harness import call, compile_module, load, zig

NAME = "graphwright.kernels.activation"
FAMILIES = Path(__file__).with_name("new_kernel")
SIZES = [0, 1, 2, 7, 16, 17, 4095, 4096, 4097, 12289]


@pytest.fixture(scope="module", autouse=True)
def kernel() -> Iterator[Any]:
    """The kernel's module; during the test, the folder of its family belongs to the package of kernels."""
    registry.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "__path__", [*kernels.__path__, str(FAMILIES)])
        patch.setattr(kernels, "activation", None, raising=False)  # the import sets it, the end deletes it
        patch.setattr(registry, "_CANDIDATES", {op: [*found] for op, found in registry._CANDIDATES.items()})
        yield import_module(f"{NAME}.leaky_relu")
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]


def expected(x: Any, alpha: float) -> Any:
    return np.where(x < 0, np.float32(alpha) * x, x)


def test_a_kernel_is_found_by_its_c_file() -> None:
    assert f"{NAME}.leaky_relu" in source_modules()


def test_a_c_file_without_a_module_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "lost.c").write_text("")
    monkeypatch.setattr(kernels, "__path__", [*kernels.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match=r"family/lost\.c"):
        source_modules()


@each_isa
def test_the_kernel_equals_numpy(kernel: Any, isa: Isa) -> None:
    function = load(kernel, isa)[kernel.SYMBOL]
    generator = np.random.default_rng(0)
    for size in SIZES:
        x = guard(generator.normal(size=size).astype(np.float32))
        x[: size // 3] = np.resize(np.array([np.nan, -np.inf, np.inf, -0.0], np.float32), size // 3)
        made = kernel.LeakyReluCall(size, int(np.array([0.25, 0], np.float32).view(np.int64)[0]))
        for chunks in chunkings(made.grid):
            y = guard(np.full(size, 99, np.float32))
            assert call(function, [x, y], made, made.grid, 0, chunks=chunks) == 0
            np.testing.assert_array_equal(y, expected(x, 0.25))


@each_isa
def test_the_candidate_launches_the_kernel(kernel: Any, isa: Isa) -> None:
    registry.load()
    module = Module()
    builder, (x,) = new_main_graph(module, [("x", tensor(F32, symbol("N"), 5))])
    node = builder(LeakyRelu(alpha=0.5), x).producer
    context = Context(CpuTarget(isa), module.constants, module.symbols)
    made = [attempt(candidate, node, context)[0] for candidate in registry.candidates_of(node)]
    (found,) = (each for each in made if isinstance(each, Run))
    (launch,) = found.launches
    assert isinstance(launch, Launch) and launch.operands == (x, node.output)
    sizes = {"N": 37}
    args = [evaluate(dim, sizes) for dim in launch.args]
    grid, work = evaluate(launch.grid, sizes), evaluate(launch.work, sizes)
    values = np.linspace(-1, 1, 37 * 5, dtype=np.float32).reshape(37, 5)
    y = np.full_like(values, 99)
    function = load(kernel, isa)[launch.kernel.symbol]
    assert call(function, [values, y], args, grid, 0) == 0
    np.testing.assert_array_equal(y, expected(values, 0.5))
    assert grid == 1 and work > 0


def test_its_candidate_says_why_not(kernel: Any) -> None:
    candidates = import_module(f"{NAME}.candidates")
    module = Module()
    builder, (x,) = new_main_graph(module, [("x", tensor(F16, 3))])
    node = builder(LeakyRelu(), x).producer
    assert candidates.leaky_relu(node, None) == "no kernel for f16"


@each_isa
def test_zig_compiles_it(kernel: Any, isa: Isa) -> None:
    compile_module(kernel, isa, zig())
