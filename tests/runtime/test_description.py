"""How a model shows itself: in a terminal and in a notebook."""

from __future__ import annotations

import html.parser
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Relu
from graphwright.ops.nn.softmax import Softmax
from graphwright.runtime.description import MOST_ROWS
from graphwright.support.units import bytes_text
from tests.onnx_models import onnx_model

HOSTILE = "<script>alert('x')</script>\x1b[31m&\""


def product(*shape: int | str, **given: Any) -> gw.Model:
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", shape)
    h = builder(MatMul(), x, np.ones((64, 48), np.float32))
    builder.output("y", builder(Softmax(axis=-1), h))
    return gw.compile(builder.build(), **given)


def rows(model: gw.Model) -> dict[str, str]:
    first, *lines = repr(model).splitlines()
    assert first == "graphwright.Model"
    width = max(len(line) - len(line[2:].split("  ", 1)[1].lstrip()) for line in lines if line.strip())
    return {line[:width].strip(): line[width:] for line in lines}


def test_a_static_model_shows_its_arena() -> None:
    model = product(2, 64)
    shown = rows(model)
    assert shown["inputs"] == "x: f32[2, 64]" and shown["outputs"] == "y: f32[2, 48]"
    assert shown["weights"] == "12.0 KiB in 1 tensor"  # 64 x 48 f32
    assert "dynamic dimensions" not in shown and shown["arena"].endswith("a run")
    model({"x": np.ones((2, 64), np.float32)})
    assert shown["arena"] == f"{bytes_text(model.stats()['arena_bytes'])} a run"


def test_dynamic_sizes_show_their_bounds() -> None:
    shown = rows(product("N", 64, shapes={"x": ("N=1..16", 64)}))
    assert shown["dynamic dimensions"] == "N (1 to 16)"
    assert shown["arena"] == "depends on the sizes of a run; 0 B held now"
    assert rows(product("N", 64, gears={"x": [(1, 64), (8, 64)]}))["gears"] == "2 shapes with static programs"


def test_a_model_of_unknown_rank_shows_that(options: Options) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    spec = (TensorProto.FLOAT, None)
    model = gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options)
    assert rows(model)["inputs"] == "x: f32[*]" and rows(model)["dynamic dimensions"] == "rank of x"


@pytest.mark.parametrize("device", ["reference", "null"])
def test_every_device_has_a_description(device: str) -> None:
    assert "inputs" in repr(product("N", 64, options={"device": device}))


def test_many_inputs_are_counted() -> None:
    builder = gw.GraphBuilder()
    values = [builder.input(f"x{k}", "f32", (2,)) for k in range(MOST_ROWS + 3)]
    builder.output("y", builder(Concat(axis=0), *values))
    assert "and 3 more" in repr(builder.compile())


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.data = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.data += data


def test_a_notebook_shows_the_graph() -> None:
    builder = gw.GraphBuilder()
    builder.output("y", builder(Relu(), builder.input("x", "f32", (2,))))
    model = builder.compile()
    shown = model._repr_html_()
    assert shown.startswith("<table>") and shown.endswith(gw.draw(model)._repr_html_())


def test_names_are_escaped() -> None:
    builder = gw.GraphBuilder()
    builder.output(HOSTILE, builder(Relu(), builder.input(f"in{HOSTILE}", "f32", (2,))))
    model = builder.compile()
    page = Tags()
    page.feed(model._repr_html_())
    assert page.tags == {"table", "caption", "tr", "th", "td", "iframe"}
    assert "<script>alert('x')</script>" in page.data and "\x1b" not in page.data
    assert "\x1b" not in repr(model)
