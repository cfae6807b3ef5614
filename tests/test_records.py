"""Cheap dataclasses against those of the standard library: the same classes, defined by both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright import records


def _classes(define: Any, field: Any) -> dict[str, Any]:
    """One class of each kind that the package has, by ``define``."""

    @define(frozen=True)
    class Point:
        x: int
        y: float = 0.5
        kind: ClassVar[str] = "point"
        tags: tuple[str, ...] = ()

    @define(frozen=True)
    class Named(Point):
        y: float = 2.5
        name: str = field(default="", compare=False)
        notes: list[str] = field(default_factory=list, repr=False, compare=False)

    @define
    class Counted:
        start: int
        counts: dict[str, int] = field(default_factory=dict)

        def __post_init__(self) -> None:
            self.start += 1

    @define(frozen=True)
    class Own:
        """A text."""

        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.x % 2 == other.x % 2

        def __repr__(self) -> str:
            return "own"

    @define(eq=False)
    class Identity:
        x: int = 3

    @define(frozen=True)
    class Empty:
        pass

    return {cls.__name__: cls for cls in (Point, Named, Counted, Own, Identity, Empty)}


THEIRS = _classes(dataclasses.dataclass, dataclasses.field)
OURS = _classes(records.dataclass, records.field)
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "Point": [(1,), (1, 0.5), (1, 2.0, ("a",)), (math.inf, -0.0)],
    "Named": [(1,), (1, 2.5, (), "n"), (1, 2.5, (), "m", ["k"]), (2,)],
    "Counted": [(1,), (1, {"a": 2}), (2,)],
    "Own": [(1,), (2,), (3,)],
    "Identity": [(), (3,), (4,)],
    "Empty": [()],
}
KINDS = list(ARGUMENTS)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _both(kind: str) -> list[list[Any]]:
    return [[classes[kind](*given) for given in ARGUMENTS[kind]] for classes in (THEIRS, OURS)]


def test_values_texts_and_comparisons_are_those_of_the_standard(kind: str) -> None:
    theirs, ours = _both(kind)
    assert [vars(one) for one in ours] == [vars(one) for one in theirs]
    if kind != "Empty":
        assert [repr(one) for one in ours] == [repr(one) for one in theirs]
    assert [[a == b for b in ours] for a in ours] == [[a == b for b in theirs] for a in theirs]


def test_hashes_are_those_of_the_standard(kind: str) -> None:
    theirs, ours = _both(kind)
    assert (type(ours[0]).__hash__ is None) == (type(theirs[0]).__hash__ is None)
    if kind not in ("Counted", "Identity"):
        assert list(map(hash, ours)) == list(map(hash, theirs))


def test_only_records_that_are_not_frozen_allow_assignments(kind: str) -> None:
    if kind == "Empty":
        return
    for one in (each[0] for each in _both(kind)):
        name = dataclasses.fields(one)[0].name
        if kind in ("Counted", "Identity"):
            setattr(one, name, 8)
            assert getattr(one, name) == 8
            continue
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(one, name, 8)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(one, name)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.something = 8


def test_a_class_that_only_inherits_has_attributes_of_its_own() -> None:
    class Wider(OURS["Point"]):  # type: ignore[misc]  # found by name
        pass

    one = Wider(1)
    one.width = 5
    assert (one.width, one.x, one) == (5, 1, Wider(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    assert one != OURS["Point"](1)


def test_functions_of_the_standard_take_them(kind: str) -> None:
    theirs, ours = THEIRS[kind], OURS[kind]
    assert dataclasses.is_dataclass(ours)
    wanted = [(f.name, f.default, f.default_factory, f.repr, f.compare) for f in dataclasses.fields(theirs)]
    assert [
        (f.name, f.default, f.default_factory, f.repr, f.compare) for f in dataclasses.fields(ours)
    ] == wanted
    for a, b in zip(*_both(kind), strict=True):
        assert dataclasses.asdict(b) == dataclasses.asdict(a)
        assert vars(dataclasses.replace(b)) == vars(dataclasses.replace(a))
    assert ours.__match_args__ == theirs.__match_args__
    if kind != "Empty":
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


def test_a_standard_dataclass_may_inherit() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wider(OURS["Point"]):  # type: ignore[misc]  # found by name
        width: int = 7

    assert [f.name for f in dataclasses.fields(Wider)] == ["x", "y", "tags", "width"]
    assert Wider(1, width=3).width == 3


def test_replace_and_fields() -> None:
    one = OURS["Named"](1, name="n", notes=["k"])
    made = records.replace(one, x=5)
    assert (made.x, made.name, made.notes) == (5, "n", ["k"]) and made.notes is one.notes
    assert [each.name for each in records.fields(one)] == ["x", "y", "tags", "name", "notes"]
    with pytest.raises(TypeError, match="unexpected keyword"):
        records.replace(one, z=1)


def test_mutable_defaults_are_created_for_each_record_or_rejected() -> None:
    first, second = OURS["Counted"](1), OURS["Counted"](1)
    first.counts["a"] = 1
    assert second.counts == {}
    with pytest.raises(ValueError, match="default_factory"):

        @records.dataclass
        class Shared:
            counts: dict[str, int] = {}  # noqa: RUF012  # what is to be refused

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        OURS["Point"]()


@records.dataclass(frozen=True)
class Kept:
    """A record that pickle can find."""

    x: int
    inner: tuple[Any, ...] = ()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_equal(again: Callable[[Kept], Kept]) -> None:
    one = Kept(3, (Kept(4),))
    assert again(one) == one


@given(st.integers(), st.lists(st.text(max_size=3), max_size=3))
def test_equality_and_hash_are_those_of_the_values(x: int, words: list[str]) -> None:
    one, other = Kept(x, tuple(words)), Kept(x, tuple(words))
    assert one == other and hash(one) == hash(other) == hash((x, tuple(words)))
    assert one != Kept(x + 1, tuple(words))
    match one:
        case Kept(found, inner):
            assert (found, inner) == (x, tuple(words))


def test_a_record_that_holds_itself_has_a_text() -> None:
    @records.dataclass
    class Knot:
        next: Any = None

    one = Knot()
    one.next = one
    assert repr(one).endswith("Knot(next=...)")


def test_running_a_model_needs_no_dataclasses() -> None:
    script = "import sys, graphwright; graphwright.load; print('dataclasses' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
