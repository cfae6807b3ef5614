"""Delta debugging, against the parts that a property was made of."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from graphwright.tools.debugging.ddmin import Budget, ddmin


@given(st.integers(1, 60), st.data())
def test_exactly_the_needed_items_remain(count: int, data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 2**count - 1))
    needed = {k for k in range(count) if bits >> k & 1}
    found = ddmin(range(count), lambda items: needed <= set(items), Budget(60))
    assert found == sorted(needed)


@given(st.integers(2, 40), st.integers(1, 5))
def test_no_item_can_be_left_out_of_a_property_that_is_not_monotone(count: int, step: int) -> None:
    def holds(items: Sequence[int]) -> bool:
        return bool(items) and sum(items) % (step + 1) == sum(range(count)) % (step + 1)

    found = ddmin(range(count), holds, Budget(60))
    assert holds(found)
    assert len(found) == 1 or not any(holds([*found[:k], *found[k + 1 :]]) for k in range(len(found)))


def test_without_time_nothing_is_removed() -> None:
    assert ddmin(range(9), lambda items: 3 in items, Budget(0)) == list(range(9))


def test_one_needed_item_of_many_takes_few_tries() -> None:
    tries = 0

    def holds(items: Sequence[int]) -> bool:
        nonlocal tries
        tries += 1
        return 700 in items

    assert ddmin(range(1024), holds, Budget(60)) == [700] and tries <= 24
