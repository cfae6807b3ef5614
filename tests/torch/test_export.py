"""Modules and exported programs as models, compared with PyTorch; their packages in an environment without
PyTorch.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import graphwright as gw
from graphwright.frontends.torch.compositions import COMPOSITIONS
from graphwright.low_ir.tasks import TaskKind
from graphwright.runtime.devices.cpu import Cpu
from tests.tools.support import graphwright


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def close(result: Any, expected: Any) -> None:
    """Arrays and tensors in the same containers."""
    plain = torch.utils._pytree.tree_map_only(np.ndarray, lambda a: torch.from_numpy(np.array(a)), result)
    torch.testing.assert_close(plain, expected, rtol=1e-4, atol=1e-5)


def run_without_torch(code: str, *arguments: str) -> str:
    """What ``code`` prints in a process that cannot import torch."""
    head = "import sys; sys.modules['torch'] = None; import numpy as np, graphwright as gw\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Containers(nn.Module):
    """Takes and gives containers, counts its calls, and keeps the sum of what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("calls", torch.ones((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(4))
        self.bias = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, ids: Any, cache: Any, scale: float = 2.0, *, mask: Any = None) -> Any:
        hidden = self.embedding(ids) * scale + cache["k"][0] + self.bias
        if mask is not None:
            hidden = hidden * mask
        self.calls.add_(1)
        self.seen += hidden.sum((0, 1))
        return {"logits": self.head(hidden), "pair": (hidden, [self.calls + 0, None, 3])}


IDS = torch.tensor([[1, 2], [3, 4]])
CACHE = {"k": [torch.ones(4)]}
MASK = torch.tensor([[[1.0], [0.5]], [[2.0], [1.0]]])


def test_containers_names_and_states(tmp_path: Path) -> None:
    module = Containers().eval()
    batch = {"ids": {0: Dim.DYNAMIC}, "cache": {"k": [None]}, "scale": None, "mask": {0: Dim.DYNAMIC}}
    model = gw.compile(module, (IDS, CACHE, 2.0), {"mask": MASK}, dynamic_shapes=batch)
    assert [spec.name for spec in model.inputs] == ["ids", "cache.k.0", "mask"]
    assert [spec.name for spec in model.outputs] == ["logits", "pair.0", "pair.1.0"]
    assert {name: state.tolist() for name, state in model.states.items()} == {"calls": 1, "seen": [0] * 4}
    for rows in (2, 1, 3):
        ids, mask = IDS[:1].repeat(rows, 1), MASK[:1].repeat(rows, 1, 1)
        close(model(ids, CACHE, mask=mask), module(ids, CACHE, mask=mask))
        close(dict(model.states), {"calls": module.calls, "seen": module.seen})
    model.reset()
    assert model.states["calls"] == 1
    model.save(tmp_path / "m.om")
    code = """
model = gw.load(sys.argv[1])
ids, ones = np.array([[1, 2], [3, 4]]), np.ones((2, 2, 1), np.float32)
for _ in range(2):
    made = model(ids, {"k": [np.ones(4, np.float32)]}, mask=ones)
calls, nothing, three = made["pair"][1]
print(list(made), type(made["pair"]).__name__, int(calls), nothing, three, model.states["calls"])
"""
    printed = run_without_torch(code, str(tmp_path / "m.om"))
    assert printed == "['logits', 'pair'] tuple 3 None 3 3\n"


@pytest.mark.parametrize(
    "arguments, named, message",
    [
        ((IDS,), {"mask": MASK}, "cache is missing"),
        ((IDS, {"k": 1}), {"mask": MASK}, r"cache.k must be a list of 1 elements, not int"),
        ((IDS, {"k": []}), {"mask": MASK}, r"cache.k must be a list of 1 elements, but has 0"),
        ((IDS, {"q": [1]}), {"mask": MASK}, r"cache.k is missing"),
        ((IDS, CACHE, 2.0, MASK), {}, "4 arguments by position, at most 3"),
        ((IDS, CACHE, 3.0), {"mask": MASK}, "scale was 2.0 when the model was exported"),
        ((IDS, CACHE), {"mask": MASK, "msk": 1}, "no argument 'msk'"),
        ((IDS, CACHE), {"mask": MASK, "ids": IDS}, "'ids' is given twice"),
        ((IDS, {"k": [torch.ones(5)]}), {"mask": MASK}, "axis 0 must be 4, but is 5"),
    ],
)
def test_arguments_that_do_not_fit_are_rejected(arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(gw.FeedError, match=message):
        compiled_containers()(*arguments, **named)


_COMPILED: list[gw.Model] = []


def compiled_containers() -> gw.Model:
    if not _COMPILED:
        _COMPILED.append(gw.compile(Containers().eval(), (IDS, CACHE, 2.0), {"mask": MASK}))
    return _COMPILED[0]


def test_one_tensor_comes_back_as_an_array() -> None:
    layer = nn.Linear(3, 2)
    model, x = gw.compile(layer, torch.ones(4, 3)), torch.randn(4, 3)
    result = model(x)
    assert type(result) is np.ndarray
    close(result, layer(x).detach())
    close(model(input=x.numpy()), layer(x).detach())
    assert list(model.run({"input": x})) == ["output"]


@dataclasses.dataclass
class Result:
    sums: torch.Tensor
    rows: int
    extra: torch.Tensor | None = None


torch.export.register_dataclass(Result)


class Objects(nn.Module):
    def forward(self, *xs: torch.Tensor, count: int, z: torch.Tensor) -> Any:
        return Result(xs[0] * count + xs[1] + z, xs[0].shape[0])


def test_numbers_objects_and_arguments_without_names_of_their_own() -> None:
    x = torch.randn(3, 2)
    rows = {0: Dim("rows", max=9)}
    dynamic = {"xs": (rows, rows), "count": Dim.DYNAMIC, "z": None}
    model = gw.compile(Objects(), (x, x), {"count": 3, "z": torch.ones(2)}, dynamic_shapes=dynamic)
    x = torch.randn(5, 2)
    made = model(x, x, count=7, z=np.zeros(2, np.float32))
    assert made["rows"] == 5 and type(made["rows"]) is int and made["extra"] is None
    close(made["sums"], x * 8)
    with pytest.raises(gw.FeedError, match="count must be a number"):
        model(x, x, count=1.5, z=torch.ones(2))
    with pytest.raises(gw.FeedError, match="9"):
        model(torch.ones(10, 2), torch.ones(10, 2), count=7, z=torch.ones(2))


def test_running_statistics_are_states() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    model = gw.compile(module, (torch.ones(4, 3),))
    for _ in range(3):
        x = torch.randn(4, 3)
        close(model(x), module(x).detach())
    close(dict(model.states), {n: b for n, b in module.named_buffers()})
    assert model.states["0.num_batches_tracked"] == 3


def test_a_model_keeps_the_parameters_that_it_was_compiled_with(tmp_path: Path) -> None:
    layer, x = nn.Linear(300, 300), torch.randn(2, 300)
    batch = {"input": {0: Dim.AUTO}}
    for options in ({}, {"device": "reference"}):
        model, expected = gw.compile(layer, (x,), dynamic_shapes=batch, options=options), layer(x).detach()
        with torch.no_grad():
            layer.weight.add_(1)
        close(model(x), expected)
        model.save(tmp_path / "m.om")
        close(gw.load(tmp_path / "m.om", trust=False, keys=[])(x), expected)


def test_exported_programs_and_several_entries() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 3)
    program = torch.export.export(layer, (x,))
    close(gw.compile(program)(x), layer(x).detach())
    both = gw.compile({"a": program, "b": torch.export.export(nn.ReLU(), (x,))})
    close(both.entries["a"](x), layer(x).detach())
    close(both.entries["b"](x), x.relu())
    with pytest.raises(gw.ModelError, match="has its examples"):
        gw.compile(program, (x,))


def test_chosen_outputs_and_constants_change_what_a_call_takes_and_gives() -> None:
    module = Containers().eval()
    model = gw.compile(module, (IDS, CACHE), {"mask": MASK}, constants={"mask": MASK.numpy()})
    close(model(IDS, CACHE), module(IDS, CACHE, mask=MASK))
    with pytest.raises(gw.FeedError, match="mask is a constant in this model"):
        model(IDS, CACHE, mask=MASK)
    chosen = gw.compile(module, (IDS, CACHE), {"mask": MASK}, outputs=["logits"])
    (logits,) = chosen(IDS, torch.ones(4), MASK)
    close(logits, module(IDS, CACHE, mask=MASK)["logits"].detach())


class Cache(nn.Module):
    """A cache of 64 rows, of which each call writes two, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.register_buffer("rows", torch.zeros(2, 3, 64, 8))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        rows = self.rows
        if self.way == "item":
            first = at[0].item()
            torch._check(first >= 0)
            torch._check(first + 2 <= 64)
            rows[:, :, first : first + 2] = x
        else:
            WAYS[self.way](rows, x, at)
        return (rows * rows).sum()


def _set_each(rows: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    rows[0, :, at] = x[0]
    rows[1, :, at] = x[1]


def _set_last(rows: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    rows[:, :, -2:] = x
    rows[:, :, 3] = x[:, :, 0]
    rows[:, :, 1:9:4] = x


def _set_pairs(rows: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    rows[:, at - 4, at] = x[:, 0]
    rows[at - 4, :, at] = x[0, :, 0]


WAYS = {
    "index_copy": lambda rows, x, at: rows.index_copy_(2, at, x),
    "index_put": lambda rows, x, at: rows.__setitem__((slice(None), slice(None), at), x),
    "scatter": lambda rows, x, at: rows.scatter_(2, at[None, None, :, None].expand(2, 3, 2, 8), x),
    "each": _set_each,
    "last": _set_last,
}


@pytest.mark.parametrize("way", [*WAYS, "item"])
def test_a_cache_is_written_in_place(way: str) -> None:
    module = Cache(way)
    x, at = torch.randn(2, 3, 2, 8), torch.tensor([4, 5])
    model = gw.compile(module, (x, at))
    held = model.states["rows"].__array_interface__["data"]
    for step in range(3):
        x = torch.randn(2, 3, 2, 8)
        close(model(x, at + step), module(x, at + step))
        close(dict(model.states), {"rows": module.rows})
    assert model.states["rows"].__array_interface__["data"] == held
    if way in ("each", "last"):  # one update behind the other
        return
    assert isinstance(model.executor, Cpu)
    assert all(task.kind is not TaskKind.COPY for task in model.executor.task_graph.tasks)


def test_indices_after_whole_axes() -> None:
    module = Cache("pairs")
    WAYS["pairs"] = _set_pairs
    x, at = torch.randn(2, 3, 2, 8), torch.tensor([4, 5])
    close(gw.compile(module, (x, at))(x, at), module(x, at))


class WritesToArgument(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


class Random(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.dropout(x, 0.5)
        return torch.linalg.svd(y)[1]


def line_of(source: type, text: str) -> str:
    """``file.py:12`` of the line of this file that has ``text`` within ``source``."""
    lines = Path(__file__).read_text().split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith(f"class {source.__name__}("))
    return f"{Path(__file__).name}:{next(k for k in range(start, len(lines)) if text in lines[k]) + 1}"


def test_unsupported_modules_are_errors_with_the_source_line() -> None:
    x = torch.ones(3, 3)
    with pytest.raises(gw.ModelError, match=r"writes to its argument 'x'"):
        gw.compile(WritesToArgument(), (x,))
    with pytest.raises(gw.ModelError) as refused:
        gw.compile(Branches(), (x,))
    assert line_of(Branches, "if x.sum()") in str(refused.value)
    assert "torch.cond" in str(refused.value)
    with pytest.raises(gw.ModelError) as missing:
        gw.compile(Random(), (x,))
    assert len(missing.value.diagnostics) == 2
    assert line_of(Random, "dropout") in str(missing.value) and line_of(Random, "svd") in str(missing.value)
    assert str(missing.value).count("call module.eval() first") == 1
    with pytest.raises(gw.ModelError, match=r"(?s)Constraints violated.*fixes a size.*suggests columns = 3"):
        gw.compile(nn.Linear(3, 2), (x,), dynamic_shapes={"input": {1: Dim("columns")}})
    with pytest.raises(gw.ModelError, match=r"(?s)cannot be read from function.*torch\.compile"):
        gw.compile(lambda t: t + 1, (x,))
    with pytest.raises(gw.ModelError, match="needs example arguments"):
        gw.compile(nn.ReLU())
    with pytest.raises(gw.OptionError, match="are for modules of PyTorch"):
        gw.compile(b"", (x,))


def test_operators_with_side_effects_are_named() -> None:
    """PyTorch wraps the check of the factorization in ``with_effects``, and orders it by a token."""

    class Factorizes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.cholesky(x)

    with pytest.raises(gw.ModelError) as missing:
        gw.compile(Factorizes(), (torch.eye(3),))
    found = [each.message.partition(":")[0] for each in missing.value.diagnostics]
    assert found == ["aten.linalg_cholesky_ex.default", "aten._linalg_check_errors.default"]
    assert str(missing.value).count("which leaves such operators to PyTorch") == 1


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_recurrent_layers_is_rejected(kind: type[nn.RNNBase]) -> None:
    """PyTorch's own decompositions of GRU and RNN leave the dropout out."""
    x = torch.ones(3, 2, 4)
    with pytest.raises(gw.ModelError, match=r"(?s)dropout between layers.*call module.eval\(\) first"):
        gw.compile(kind(4, 8, 2, dropout=0.5), (x,))
    gw.compile(kind(4, 8, 2, dropout=0.5).eval(), (x,))


def test_composite_operators_of_libraries_that_are_imported_later_are_decomposed() -> None:
    x = torch.randn(3, 4)
    gw.compile(nn.ReLU(), (x,))

    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    torch.library.define("graphwright_tests::twice", "(Tensor x) -> Tensor")
    torch.library.impl("graphwright_tests::twice", "CompositeImplicitAutograd", twice)

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.graphwright_tests.twice(x) + 1

    close(gw.compile(Twice(), (x,))(x), x * 2 + 1)


def test_importing_graphwright_does_not_import_torch() -> None:
    code = "import sys, graphwright, graphwright.api; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


class TakesTwo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.full((2,), 3.0))

    def forward(self, x: torch.Tensor, options: dict[str, torch.Tensor], power: float = 2.0) -> Any:
        self.calls += 1
        return {"y": self.linear(x) * options["scale"] + self.calls[0], "n": x.shape[0]}


def test_files_of_programs_are_compiled_run_and_checked(tmp_path: Path) -> None:
    module, x, scale = TakesTwo(), torch.randn(2, 4), torch.randn(4)
    dynamic = {"x": {0: Dim("batch", max=9)}, "options": {"scale": None}, "power": None}
    file = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(module, (x, {"scale": scale}, 2.0), dynamic_shapes=dynamic), file)
    model = gw.compile(file)
    x = torch.randn(5, 4)
    close(model(x, {"scale": scale}), module(x, {"scale": scale}))
    with pytest.raises(gw.PackageError, match="overwrite the file that the model was made from"):
        model.save(file)
    shapes = ["--shape", "x:3,4"]
    assert run_command("compile", str(file), "-o", str(tmp_path / "m.om")).startswith("wrote")
    for said, command in (
        ("float32[3, 4]", ("run", tmp_path / "m.om")),
        ("all outputs are within", ("check", file)),
    ):
        done = graphwright(*command, *shapes)
        assert done.exit_code == 0 and said in done.output
    assert gw.load(tmp_path / "m.om")(x, {"scale": scale})["n"] == 5


def run_command(*arguments: str, status: int = 0, without_torch: bool = False) -> str:
    head = "import sys; sys.modules['torch'] = None; " if without_torch else ""
    code = f"{head}from graphwright.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_other_files_of_pytorch(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
    scripted, pickled, whole = (str(tmp_path / name) for name in ("script.pt", "state.pt", "module.pt"))
    torch.jit.save(torch.jit.trace(module, x), scripted)
    torch.save(module.state_dict(), pickled)
    torch.save(module, whole)
    close(gw.compile(scripted, (x,))(x), module(x).detach())
    refused = graphwright("compile", scripted)
    assert refused.exit_code == 1 and refused.output.startswith(f"error: {scripted}: ")
    assert "gw.compile(module, (x,))" in refused.output
    for file in (pickled, whole):
        with pytest.raises(gw.ModelError, match=r"(?s)pickled objects.*load the state dict"):
            gw.compile(file, (x,))
    assert "graphwright[torch]" in run_command("compile", scripted, status=1, without_torch=True)
    (tmp_path / "script.pt").write_bytes((tmp_path / "script.pt").read_bytes()[:-300])
    with pytest.raises(gw.ModelError, match="PyTorch cannot read it"):
        gw.compile(scripted, (x,))


def test_damaged_programs_have_one_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module, x = nn.Linear(4, 4), torch.randn(2, 4)
    file = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(module, (x,)), file)
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(gw.ModelError, match="PyTorch cannot read it"):
        gw.compile(file)
    assert all(record.levelno < logging.WARNING for record in caplog.records)


@pytest.mark.parametrize(
    "layer, states",
    [
        (nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), 0),
        (nn.LSTM(8, 16, bias=False), 2),
        (nn.LSTM(8, 16, proj_size=4), 0),
        (nn.GRU(8, 16, 2, bidirectional=True), 0),
        (nn.GRU(8, 16, batch_first=True), 1),
        (nn.RNN(8, 16, nonlinearity="relu", bidirectional=True), 0),
    ],
    ids=str,
)
def test_recurrent_layers(layer: Any, states: int) -> None:
    if isinstance(layer, nn.LSTM) and torch.__version__ < (2, 13):
        pytest.skip("PyTorch 2.12 states wrong shapes for the states of an exported LSTM")
    layer = layer.eval()
    x = torch.randn(3, 5, 8) if layer.batch_first else torch.randn(5, 3, 8)
    held = tuple(torch.randn(1, 3, 16) for _ in range(states))
    given = () if not states else (held if states == 2 else held[0],)
    model = gw.compile(layer, (x, *given))
    with torch.no_grad():
        close(model(x, *given), layer(x, *given))
    assert layer.mode.removesuffix("_RELU") in model.entry.graph or getattr(layer, "proj_size", 0)


def test_dynamic_sizes_have_the_names_of_their_dims() -> None:
    class Halves(nn.Module):
        def forward(self, parts: Any, y: torch.Tensor) -> torch.Tensor:
            return parts["x"][0] + y[::2]

    rows = Dim("rows", max=20)
    dynamic = {"parts": {"x": [{0: rows}]}, "y": {0: 2 * rows}}
    model = gw.compile(Halves(), ({"x": [torch.ones(4, 2)]}, torch.ones(8, 2)), dynamic_shapes=dynamic)
    assert [spec.shape for spec in model.inputs] == [("rows", 2), ("2*rows", 2)]
    x, y = torch.randn(3, 2), torch.randn(6, 2)
    close(model({"x": [x]}, y), x + y[::2])
    with pytest.raises(gw.FeedError):
        model({"x": [x]}, torch.randn(5, 2))


def test_files_of_programs_have_sizes_that_depend_on_others(tmp_path: Path) -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y[1::2]

    rows = Dim("rows", min=2, max=20)
    examples = (torch.ones(4, 2), torch.ones(8, 2))
    program = torch.export.export(Halves(), examples, dynamic_shapes={"x": {0: rows}, "y": {0: 2 * rows}})
    torch.export.save(program, tmp_path / "m.pt2")
    for source in (tmp_path / "m.pt2", torch.export.load(tmp_path / "m.pt2")):
        x, y = torch.randn(3, 2), torch.randn(6, 2)
        close(gw.compile(source)(x, y), x + y[1::2])


class Applies(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


BRANCHES: dict[str, tuple[Callable[[torch.Tensor], Any], int, int, int]] = {
    "even": (lambda x: x.view(-1, 2, 4) + 1 if x.shape[0] % 2 == 0 else x * 5, 8, 2, 7),
    "odd": (lambda x: x.view(-1, 2, 4) + 1 if x.shape[0] % 2 == 0 else x * 5, 7, 5, 8),
    "taller than wide": (lambda x: x.sum(0) if x.shape[0] > x.shape[1] else x.sum(1), 7, 5, 3),
    "specialized by PyTorch": (lambda x: x[: int(x.shape[0] / 2)] + 1, 8, 9, 12),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_sizes_that_take_another_branch_are_rejected(name: str) -> None:
    """The program has the branch of the example; the last size takes another branch."""
    function, example, same, other = BRANCHES[name]
    module = Applies(function)
    model = gw.compile(module, (torch.randn(example, 4),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    for rows in (example, same):
        x = torch.randn(rows, 4)
        close(model(x), module(x))
    with pytest.raises(gw.FeedError, match="a branch in forward that depends on sizes"):
        model(torch.randn(other, 4))


def test_sizes_that_a_decomposition_does_not_keep_dynamic_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results for other sizes would be those of the example."""

    def mode(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
        return x.sum(dim), torch.full((int(x.shape[0]),), int(x.shape[0]))

    monkeypatch.setitem(COMPOSITIONS, torch.ops.aten.mode.default, mode)
    module, dynamic = Applies(lambda x: torch.mode(x, 1)), {"x": {0: Dim.AUTO}}
    model = gw.compile(module, (torch.randn(5, 4),), dynamic_shapes=dynamic)
    assert model(torch.ones(5, 4))[1].tolist() == [5] * 5
    with pytest.raises(gw.FeedError, match="must be 5"):
        model(torch.ones(6, 4))


DYNAMIC: dict[str, Callable[[torch.Tensor], Any]] = {
    **{
        f"resized by {scale}, {mode}": partial(nn.functional.interpolate, scale_factor=scale, mode=mode)
        for scale in (2.0, 1.7, 0.5, 1 / 3)
        for mode in ("nearest", "bilinear")
    },
    "resized by its own sizes": partial(
        nn.functional.interpolate, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True
    ),
    "part, rounded down": lambda x: x[..., : math.floor(x.shape[3] * 0.3)] + 1,
    "part, rounded up": lambda x: x[..., : math.ceil(x.shape[3] * 0.3)] + 1,
    "averages of windows": partial(nn.functional.adaptive_avg_pool2d, output_size=(2, 3)),
    "averages of windows longer than the axis": partial(
        nn.functional.adaptive_avg_pool2d, output_size=(20, 1)
    ),
    "largest of all": partial(nn.functional.adaptive_max_pool2d, output_size=1, return_indices=True),
    "variance": lambda x: (x.var(3), x.std((0, 2, 3)), torch.var_mean(x, 2, correction=0)),
    "averages of windows with a divisor": lambda x: nn.functional.avg_pool2d(
        x.permute(2, 3, 0, 1), (1, 2), padding=(0, 1), divisor_override=3
    ),
    "windows": lambda x: (x.unfold(3, 4, 2) + 1, x.unfold(-2, 1, 3) * 2),
    "positions among sorted elements": lambda x: (
        torch.searchsorted(x[0, 0].sort()[0], x[0, 1], right=True),
        torch.bucketize(x, x[0, 0, 0].sort()[0]),
    ),
    "most frequent elements": lambda x: (
        torch.mode(x.round(), 3)[0],
        x.round().gather(3, torch.mode(x.round(), 3, True)[1]),
    ),
    "medians": lambda x: (
        x.median(2)[0],
        x.nanmedian(3)[0],
        x.kthvalue(2, 3)[0],
        x.unfold(3, 3, 1).median(-1)[0],
    ),
    "running extremes and sums": lambda x: (x.cummax(2), x.cummin(3), x.logcumsumexp(3)),
    "quotients and roots of sizes": lambda x: (
        x / x.shape[3] ** 0.5,
        (x > 0) * (1 / x.shape[2]),
        x.abs() ** (x.shape[3] / 4) + x.sum().item() / x.shape[2],
        x.clamp(max=x.shape[2] / 20),
    ),
    "a tensor of a quotient": lambda x: x.new_full((3,), -abs(x.shape[3] / 4)),
    "factors": lambda x: torch.baddbmm(
        torch.add(x[0], x[0], alpha=x.shape[3]), x[0], x[0].mT @ x[0], alpha=x.shape[2] / 4, beta=x.shape[3]
    ),
}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.permute(2, 0, 1).reshape(-1, 4) + 1,
        lambda x: nn.functional.scaled_dot_product_attention(
            *x.view(*x.shape[:2], 3, 2, 2).permute(2, 0, 3, 1, 4), is_causal=True
        ).transpose(1, 2).flatten(2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 1), (4, 4)])
def test_the_way_in_which_pytorch_reshapes_is_no_assumption(
    function: Callable[[torch.Tensor], Any], sizes: tuple[int, int]
) -> None:
    dynamic = {"x": {0: Dim("batch"), 1: Dim("tokens")}}
    model = gw.compile(Applies(function), (torch.randn(5, 6, 12),), dynamic_shapes=dynamic)
    x = torch.randn(*sizes, 12)
    close(model(x), function(x))


@pytest.mark.parametrize("name", DYNAMIC)
def test_operators_on_dynamic_sizes(name: str) -> None:
    module = Applies(DYNAMIC[name])
    dynamic = {"x": {2: Dim.AUTO, 3: Dim.AUTO}}
    model = gw.compile(module, (torch.randn(1, 2, 12, 9),), dynamic_shapes=dynamic)
    for rows, columns in ((12, 9), (17, 10), (5, 31)):
        x = torch.randn(1, 2, rows, columns)
        close(model(x), module(x))


@pytest.mark.parametrize("bounds", [(0, 5, 2.5), (0.5, 7, 1), (0, -5.5, -1.2), (1.9, 6.1, 2.7)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_integers_between_floats(bounds: tuple[float, ...], dtype: torch.dtype) -> None:
    module = Applies(lambda x: torch.arange(*bounds, dtype=dtype) + x)
    x = torch.ones(1, dtype=dtype)
    close(gw.compile(module, (x,))(x), module(x))


class SharedCache(nn.Module):
    """A cache that is a buffer and is written to under another name, as those of transformers are."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [torch.zeros(8, 4)]
        self.register_buffer("cache", self.layers[0])

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.layers[0].index_copy_(0, at, x)
        return self.cache.sum(0)


def test_a_buffer_with_two_names_is_one_state() -> None:
    module = SharedCache()
    x, at = torch.randn(1, 4), torch.tensor([2])
    model = gw.compile(module, (x, at))
    assert list(model.states) == ["cache"]
    for step in range(3):
        close(model(x, at + step), module(x, at + step))


def _filled(x: torch.Tensor) -> Any:
    y, z = x.clone(), x.clone()
    y[x > 0] = 3.0
    z[(x > 0).all(-1)] = 1.0
    return y, z


def _doubled(x: torch.Tensor) -> Any:
    y, mask = x.clone(), x > 0
    y[mask] = x[mask] * 2
    return y


def _bins(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int64).abs().reshape(-1)


SELECTIONS = {
    "distinct": lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "runs": lambda x: torch.unique_consecutive(x.round(), return_inverse=True, return_counts=True),
    "NaN is distinct": lambda x: torch.unique((x - 1).sqrt(), return_counts=True)[1],
    "repeated": lambda x: torch.repeat_interleave(x, _bins(x[:, 0]), 0) * 2,
    "repeated to a known size": lambda x: torch.repeat_interleave(
        x, (torch.arange(5) + x[0, 0].to(torch.int64)) % 5, 0, output_size=10
    ),
    "counted": lambda x: (torch.bincount(_bins(x)), torch.bincount(_bins(x), minlength=4)),
    "weights counted": lambda x: (
        torch.bincount(_bins(x), x.reshape(-1)),
        torch.bincount(_bins(x), _bins(x)),
    ),
    "mask": lambda x: (x[x > 0], x[x > 0].sum()),
    "rows": lambda x: x[(x > 0).any(-1)] @ x.T,
    "nonzero": lambda x: (torch.nonzero(x > 0), torch.where(x > 1)),
    "select": lambda x: torch.masked_select(x, x > 0) + 1,
    "filled": _filled,
    "doubled": _doubled,
    "counts": lambda x: (torch.nonzero(x > 0).shape[0], x[x > 0].shape[0] * 2),
    "made": lambda x: torch.zeros(x[x > 0].shape[0]).sum() + torch.arange(torch.nonzero(x).shape[0]).sum(),
}


class Selects(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> Any:
        return SELECTIONS[self.name](x)


@pytest.mark.parametrize("name", SELECTIONS)
def test_data_dependent_sizes(name: str) -> None:
    module = Selects(name)
    model = gw.compile(module, (torch.randn(5, 4),))
    for x in (torch.randn(5, 4), -torch.ones(5, 4), torch.ones(5, 4)):
        close(model(x), module(x))


def test_channels_last_is_pooled_to_one_element_for_any_batch() -> None:
    """PyTorch gives the result the strides of channels_last with as_strided, whose sizes are dynamic."""

    class Pool(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), 1).flatten(1)

    model = gw.compile(Pool(), (torch.rand(2, 4, 4, 3),), dynamic_shapes={"x": {0: Dim("batch", max=8)}})
    x = torch.rand(5, 4, 4, 3)
    close(model(x), x.mean((1, 2)))
