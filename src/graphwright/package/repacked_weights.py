"""Weights of targets other than the first, made on demand from those of the first.

A file has weights in the layout of its first target. Weights that another target reads in another layout are
repacked from these; weights that only that target reads, such as transformed filters, are in a member of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from graphwright.errors import Diagnostic, PackageError
from graphwright.ir.arrays import Array, np
from graphwright.ir.constants.deferred import Deferred, Packing
from graphwright.ir.dtypes import dtype_of
from graphwright.package.pack_weights import UnpackedWeights, pack_weights
from graphwright.package.weights import Weights
from graphwright.support.fork_lock import ForkLock

if TYPE_CHECKING:
    from graphwright.ir.types import Layout


class Packs:
    """The weights of a target. ``plain`` is a JSON value: the recipe for each tensor, and the digests of all.

    ``first`` are the weights of the first target; ``own`` returns those that only this target reads.
    """

    def __init__(
        self, plain: Mapping[str, Any], first: Weights, own: Callable[[], Weights | UnpackedWeights]
    ) -> None:
        self.plain, self.own = plain, own
        self._first = first
        self._made: Weights | None = None
        self._lock = ForkLock()

    def weights(self) -> Weights:
        """The weights, made once. Raises PackageError if they differ from what was written."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _make(self) -> Weights:
        try:
            own = self.own().arrays
            arrays: dict[str, Array | Deferred] = {}
            for name, recipe in self.plain["made"]:
                arrays[name] = (
                    _repacked(self._first, recipe)
                    if isinstance(recipe, list)
                    else {"same": self._first.arrays, "own": own}[recipe][name]
                )
            weights = pack_weights(arrays)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise _damaged(f"the weights of a target are malformed: {error}") from error
        if weights.digests() != self.plain["tensors"] or weights.index_digest() != self.plain["indices"]:
            raise _damaged("weights are damaged, or were repacked wrongly for another target")
        return weights


def _damaged(message: str) -> PackageError:
    return PackageError(Diagnostic("damaged-weights", message, hint="copy or fetch the file again"))


def packs_of(first: Weights, other: Weights) -> Packs:
    """The :class:`Packs` that make ``other`` from ``first``, both of one compilation."""
    origins: dict[str, tuple[str, Packing]] = {}
    for name in first.tensors:
        packing = first.packings.get(name) or Packing(name, first.tensors[name].shape, None)
        origins.setdefault(packing.source, (name, packing))
    recipes = {name: _recipe(name, first, other, origins) for name in other.tensors}
    own = {name: other.arrays[name] for name, recipe in recipes.items() if recipe == "own"}
    items = [list(item) for item in recipes.items()]
    plain = {"made": items, "tensors": other.digests(), "indices": other.index_digest()}
    return Packs(plain, first, lambda: UnpackedWeights(own))


def _recipe(
    name: str, first: Weights, other: Weights, origins: Mapping[str, tuple[str, Packing]]
) -> str | list[Any]:
    """How to make tensor ``name`` of ``other``: "same" if ``first`` has it, "own" if only ``other`` has it,
    else the name of a tensor of ``first``, its shape and layout, and the shape and layout to repack it to.
    """
    held, wanted = first.tensors.get(name), other.tensors[name]
    if held is not None and (held.dtype, held.shape) == (wanted.dtype, wanted.shape):
        return "same"
    packing = other.packings.get(name) or Packing(name, wanted.shape, None)
    if packing.source not in origins:
        return "own"
    origin, packed = origins[packing.source]
    return [origin, _plain_view(packed), _plain_view(packing)]


def _plain_view(packing: Packing) -> list[Any]:
    layout = packing.layout
    plain = None if layout is None else [layout.order, layout.blocks, layout.zero_padded]
    return [list(packing.shape), plain]


def _repacked(first: Weights, recipe: list[Any]) -> Deferred:
    """A tensor of ``first`` in another shape and layout; it is one job, so that few copies exist at a
    time.
    """
    origin, (shape, layout), (new_shape, new_layout) = recipe
    array = first.arrays[origin]
    from graphwright.layout import transform  # imported only to repack weights

    old, new = (None if plain is None else _layout(plain) for plain in (layout, new_layout))

    def write(out: Array) -> None:
        source = array if old is None else transform.unpack(array, old, tuple(shape))
        if new is None:
            np.copyto(out, source.reshape(new_shape))
        else:
            transform.pack_into(out, source.reshape(new_shape), new)

    packed = tuple(new_shape) if new is None else transform.packed_shape(tuple(new_shape), new)
    return Deferred(dtype_of(array), packed, lambda out: (partial(write, out),))


def _layout(plain: Any) -> Layout:
    from graphwright.ir.types import Layout

    order, blocks, zero_padded = plain
    return Layout(tuple(order), tuple((axis, size) for axis, size in blocks), bool(zero_padded))
