"""Programs that share the memory of their runs: as much as the largest needs, and never another's results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from graphwright import _native
from tests.runtime.native.handmade import affine_chain, affine_chain_value, load, numbers, wide, wide_value

SIZES = (3, 1000, 70_000, 400_000, 17)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_arena_as_large_as_the_largest_plan(library: _native.Library, threads: int) -> None:
    arenas = _native.Arenas()
    programs = [load(affine_chain(6), library, arenas=arenas), load(wide(4, 0), library, arenas=arenas)]
    assert arenas.bytes == 0
    largest = 0
    for turn in range(3):
        for n in (*SIZES, *reversed(SIZES)):
            x = numbers(n)
            (chain,) = programs[0].run([x], threads=threads)
            (fan,) = programs[1].run([x], threads=threads)
            np.testing.assert_array_equal(chain, affine_chain_value(x, 6))
            np.testing.assert_array_equal(fan, wide_value(x, 4))
            largest = max(largest, *(p.plan([(n,)], threads)["arena"] for p in programs))
            assert largest <= arenas.bytes <= largest + (2 << 20), f"turn {turn}, {n}: whole pages"
            assert programs[0].stats()["arena_bytes"] == arenas.bytes == programs[1].stats()["arena_bytes"]


def test_memory_of_their_own_without(library: _native.Library) -> None:
    one, other = load(affine_chain(6), library), load(affine_chain(6), library)
    one.run([numbers(1000)])
    assert one.stats()["arena_bytes"] > 0 and other.stats()["arena_bytes"] == 0


def test_trimming_one_program_releases_the_shared_arenas(library: _native.Library) -> None:
    arenas = _native.Arenas()
    one, other = (load(affine_chain(6), library, arenas=arenas) for _ in range(2))
    x = numbers(70_000)
    one.trim()  # outputs of other tests
    (before,) = one.run([x])
    held = arenas.bytes
    assert held > 0 and other.trim() == held and arenas.bytes == 0
    (after,) = one.run([x])
    np.testing.assert_array_equal(before, after)
    assert arenas.bytes == held


def test_arenas_outlive_their_programs(library: _native.Library) -> None:
    arenas = _native.Arenas()
    x = numbers(1000)
    for _ in range(3):
        load(affine_chain(6), library, arenas=arenas).run([x])
    assert arenas.bytes > 0
    (y,) = load(wide(4, 0), library, arenas=arenas).run([x], poison=True)
    np.testing.assert_array_equal(y, wide_value(x, 4))


def test_runs_side_by_side_have_arenas_of_their_own(library: _native.Library) -> None:
    arenas = _native.Arenas()
    programs = [
        load(affine_chain(8, 100), library, arenas=arenas),
        load(wide(5, 100), library, arenas=arenas),
    ]
    values = (lambda x: affine_chain_value(x, 8), lambda x: wide_value(x, 5))

    def work(number: int) -> None:
        for turn in range(60):
            n = SIZES[(number + turn) % 3]
            which = (number + turn) % 2
            x = numbers(n)
            (y,) = programs[which].run([x], threads=1, poison=turn % 7 == 0)
            np.testing.assert_array_equal(y, values[which](x))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    most = max(p.plan([(max(SIZES[:3]),)], 1)["arena"] for p in programs)
    assert arenas.bytes <= 4 * (most + (2 << 20))


@pytest.mark.parametrize("wrong", [3, "arenas", object()])
def test_something_else_than_arenas_is_rejected(library: _native.Library, wrong: object) -> None:
    with pytest.raises((TypeError, RuntimeError)):
        load(affine_chain(6), library, arenas=wrong)  # type: ignore[arg-type]  # that is what is wrong
