"""Modules and exported programs as models, compared with PyTorch; their packages in an environment without
PyTorch.
"""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import graphwright as gw
from graphwright.errors import ModelError
from graphwright.low_ir.tasks import TaskKind
from graphwright.runtime.devices.cpu import Cpu
from tests.tools.support import graphwright
from tests.torch.support import Applies, close


def run_without_torch(code: str, *arguments: str) -> str:
    """The output of ``code`` in a process that cannot import torch."""
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
        ((IDS, {"k": [torch.ones(5)]}), {"mask": MASK}, r"axis 0 of 'cache\.k\.0' must be 4, but is 5"),
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


class Mixes(nn.Module):
    """A sum in which each argument has a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.randn(4))

    def forward(self, a: Any, b: Any, c: Any, *, d: Any) -> Any:
        return a - 2 * b + 3 * c["x"] - 4 * d + 5 * self.shift


@pytest.mark.parametrize("axes", [{}, {0: Dim("n")}])
def test_a_tensor_may_be_the_example_of_several_arguments(axes: dict[int, Any]) -> None:
    module, x = Mixes(), torch.randn(3, 4)
    shapes = {"a": axes, "b": axes, "c": {"x": axes}, "d": {}}
    model = gw.compile(module, (x, x, {"x": x}), {"d": module.get_buffer("shift")}, dynamic_shapes=shapes)
    a, b, c = torch.randn(3, 5 if axes else 3, 4).unbind()
    d = torch.randn(4)
    close(model(a, b, {"x": c}, d=d), module(a, b, {"x": c}, d=d))


def test_a_program_with_one_example_for_several_arguments_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x = torch.randn(3, 4)
    gw.compile(torch.export.export(Mixes(), (x, x.clone(), {"x": x}), {"d": torch.randn(4)}))
    assert "one tensor for the arguments a, c_x: torch.export reads only one of them" in caplog.text


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
        return torch.geqrf(y)[1]


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
    assert line_of(Random, "dropout") in str(missing.value) and line_of(Random, "geqrf") in str(missing.value)
    assert str(missing.value).count("call module.eval() first") == 1
    with pytest.raises(gw.ModelError, match=r"(?s)Constraints violated.*fixes a size.*suggests columns = 3"):
        gw.compile(nn.Linear(3, 2), (x,), dynamic_shapes={"input": {1: Dim("columns")}})
    with pytest.raises(gw.ModelError, match=r"(?s)cannot be read from function.*torch\.compile"):
        gw.compile(lambda t: t + 1, (x,))
    with pytest.raises(gw.ModelError, match="needs example arguments"):
        gw.compile(nn.ReLU())
    with pytest.raises(gw.OptionError, match="are for modules of PyTorch"):
        gw.compile(b"", (x,))
    for model in (nn.ReLU(), b""):
        with pytest.raises(gw.OptionError, match="pass options by name"):
            gw.compile(model, gw.CompileOptions())


def test_operators_with_side_effects_are_named() -> None:
    """PyTorch wraps them in ``with_effects``, and orders them by a token."""

    class Prints(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.ops.aten._print("x")
            return x + 1

    with pytest.raises(gw.ModelError) as missing:
        gw.compile(Prints(), (torch.eye(3),))
    found = [each.message.partition(":")[0] for each in missing.value.diagnostics]
    assert found == ["aten._print.default"]
    assert str(missing.value).count("which leaves such operators to PyTorch") == 1


@pytest.mark.parametrize("size", [3, 10])
def test_linear_algebra_without_the_checks_of_lapack(size: int) -> None:
    """Singular matrices give no error, but NaN or infinities."""

    class Solves(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            factor = torch.linalg.cholesky(x @ x.mT + torch.eye(size))
            inverse = torch.linalg.inv(x)
            return inverse, torch.linalg.solve(x, y), torch.cholesky_solve(y, factor), torch.logdet(x @ x.mT)

    torch.manual_seed(0)
    x, y = torch.randn(2, size, size) + 3 * torch.eye(size), torch.randn(2, size, 4)
    model = gw.compile(Solves(), (x, y), dynamic_shapes=({0: Dim("batch")}, {0: Dim("batch")}))
    close(model(x, y), Solves()(x, y))
    close(model(x[:1], y[:1]), Solves()(x[:1], y[:1]))
    assert not np.isfinite(model(torch.zeros(2, size, size), y)[0]).any()


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
def test_exported_recurrent_layers_give_what_pytorch_gives(layer: Any, states: int) -> None:
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


@pytest.mark.parametrize("bounds", [(0, 5, 2.5), (0.5, 7, 1), (0, -5.5, -1.2), (1.9, 6.1, 2.7)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_integers_between_floats(bounds: tuple[float, ...], dtype: torch.dtype) -> None:
    module = Applies(lambda x: torch.arange(*bounds, dtype=dtype) + x)
    x = torch.ones(1, dtype=dtype)
    close(gw.compile(module, (x,))(x), module(x))


class SharedCache(nn.Module):
    """A cache that is a buffer, and is written through another name, as the caches of transformers are."""

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


class Factored(nn.Module):
    """What does not depend on the signs of vectors, of matrices of dynamic number."""

    def forward(self, x: torch.Tensor) -> Any:
        symmetric = x @ x.mT
        w, v = torch.linalg.eigh(symmetric)
        u, s, h = torch.linalg.svd(x, full_matrices=False)
        q, r = torch.linalg.qr(x)
        p, lower, upper = torch.linalg.lu(symmetric)
        root = (v * w.clamp(min=0).sqrt()[..., None, :]) @ v.mT
        inverse = torch.linalg.pinv(x)
        return root, (u * s[..., None, :]) @ h, q @ r, p @ lower @ upper, w, s, inverse


def test_exported_factorizations_give_what_pytorch_gives() -> None:
    """Under torch.compile, PyTorch computes them."""
    torch.manual_seed(0)
    model = gw.compile(Factored(), (torch.randn(3, 4, 6),), dynamic_shapes={"x": {0: Dim.AUTO}})
    for count in (1, 5):
        x = torch.randn(count, 4, 6)
        close(model(x), Factored()(x), rtol=1e-3)


def test_exported_unique_gives_the_rows_of_pytorch() -> None:
    x = torch.randint(0, 2, (12, 3))
    distinct = Applies(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True))
    close(gw.compile(distinct, (x,))(x), torch.unique(x, dim=0, return_inverse=True, return_counts=True))


def test_errors_name_sparse_buffers() -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", torch.eye(4).to_sparse())
            self.register_buffer("degrees", torch.eye(4).to_sparse_csr())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sparse.mm(self.adjacency, x) + torch.sparse.mm(self.degrees, x)

    with pytest.raises(ModelError) as caught:
        gw.compile(Graph(), (torch.randn(4, 3),))
    messages = [each.message for each in caught.value.diagnostics]
    assert messages == [
        "adjacency has the layout torch.sparse_coo, not torch.strided",
        "degrees has the layout torch.sparse_csr, not torch.strided",
    ]
