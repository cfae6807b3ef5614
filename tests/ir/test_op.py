"""Ops compare by class and attributes, whatever their classes inherit."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from graphwright import ops
from graphwright.ir.interfaces.blocked_form import BlockedForm
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.interfaces.copied_elements import CopiesElements
from graphwright.ir.interfaces.padding import PaddingRule
from graphwright.ir.op import Op, family, op, registered_ops
from graphwright.ir.op.region_op import LoopOp, RegionOp


@family
class Windowed(Op):
    kernel: tuple[int, ...] = (3,)


@op("TestWindow")
class Window(Windowed):
    stride: int = 1


@op("TestOther")
class Other(Windowed):
    stride: int = 1


@op("TestPlain")
class Plain(Windowed):
    pass


@op("TestStride")
class Stride(Op):
    stride: int


def test_every_attribute_counts() -> None:
    """The fields of a base class that is a dataclass are attributes, and so are the fields that a subclass
    adds.
    """
    assert Window((2,), 4) == Window((2,), 4)
    assert hash(Window((2,), 4)) == hash(Window((2,), 4))
    assert Window((2,), 4) != Window((2,), 5)
    assert Window((2,), 4) != Window((3,), 4)
    assert replace(Window((2,), 4), stride=1) == Window((2,))
    assert len({Window(), Window((3,)), Window((3,), 1), Window((1,))}) == 2


def test_ops_of_different_classes_differ() -> None:
    assert Window() != Other() and Plain() != Windowed() and Plain() == Plain((3,))
    assert Window() != "TestWindow"


def test_attributes_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        Window().stride = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "named"), [((1,), {"stride": 2}), (((3,), 1, 2), {}), ((), {"pads": 1})], ids=str
)
def test_unknown_and_repeated_attributes_are_rejected(
    values: tuple[object, ...], named: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match="takes the attributes"):
        Stride(*values, **named)
    with pytest.raises(TypeError, match="takes the attributes stride"):
        Stride()
    assert Stride(2).stride == Stride(stride=2).stride == 2


@pytest.mark.parametrize("interface", [PaddingRule, BlockedForm, BoundedForm, CopiesElements, LoopOp])
def test_ops_define_the_methods_of_their_interfaces(interface: type) -> None:
    ops.load()
    names = [name for name, made in vars(interface).items() if callable(made) and not name.startswith("_")]
    implementing = [cls for cls in registered_ops().values() if issubclass(cls, interface)]
    lacking = [(c.name, n) for c in implementing for n in names if getattr(c, n) is getattr(interface, n)]
    assert names
    assert implementing
    assert not lacking


def test_ops_have_inference() -> None:
    ops.load()
    built_in = [c for c in registered_ops().values() if c.__module__.startswith("graphwright.")]
    for cls in built_in:
        if issubclass(cls, RegionOp):
            assert cls.infer_regions is not RegionOp.infer_regions, cls.name
            assert cls.region_inputs is not RegionOp.region_inputs, cls.name
        else:
            assert cls.infer is not Op.infer, cls.name
