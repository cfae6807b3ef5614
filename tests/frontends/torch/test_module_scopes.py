"""The modules that nodes are in, as pictures group them."""

from __future__ import annotations

import pytest
import torch

import graphwright as gw
from graphwright.frontends.torch.module_scopes import note_modules
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module
from graphwright.view.stages import PictureObserver

NAMES = ("first", "second")


def test_modules_of_an_exported_program_are_groups() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            made = {name: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for name in NAMES}
            self.blocks = torch.nn.ModuleDict(made)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.blocks["second"](self.blocks["first"](x))

    observer = PictureObserver()
    gw.compile(Net().eval(), (torch.ones(4, 8),), options={"device": "cpu"}, observe=observer)
    picture = observer.pictures()[0]
    scopes = {node.scope for node in picture.nodes if node.sources}
    assert scopes == {("blocks", name, number) for name in NAMES for number in "01"}


@pytest.mark.parametrize(
    ("stack", "path"),
    [
        (
            {"a": ("L['self'].layer1.0", torch.nn.Linear), "b": ("L['self'].layer1.0.conv", torch.nn.Linear)},
            ("layer1", "0", "conv"),
        ),
        ({"a": ("layer1.0", "torch.nn.Linear")}, ("layer1", "0")),
        ({"a": ("L['self']", torch.nn.Linear)}, ()),
        ({"a": ("", torch.nn.Linear)}, ()),
        ({"a": None}, ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_paths_of_modules(stack: object, path: tuple[str, ...]) -> None:
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["nn_module_stack"] = stack
    builder = Builder(Module(), Graph("main"), sources=("x",))
    note_modules(node, builder)
    assert builder.module.scopes.get("x", ()) == path
