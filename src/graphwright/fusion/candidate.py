"""A candidate: a possible merge of two groups, which legality checks, rules and constraints examine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from graphwright.fusion.kernel_groups import KernelGroup, KernelPartition
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim
from graphwright.ir.types import TensorType
from graphwright.loop_nests.analysis import analyze, extended
from graphwright.loop_nests.nest import Nest
from graphwright.targets.base import Target


class Candidate:
    """A possible merge of ``producer`` and ``consumer``, which reads its results, into one kernel."""

    def __init__(
        self, producer: KernelGroup, consumer: KernelGroup, partition: KernelPartition, target: Target
    ) -> None:
        self.producer, self.consumer = producer, consumer
        self.partition, self.target = partition, target

    @property
    def anchor(self) -> Node | None:
        """The contraction whose epilogue the other nodes would become; the first one if there are several."""
        return next(iter(self.anchors), None)

    @cached_property
    def anchors(self) -> tuple[Node, ...]:
        """All contractions, in the order of the graph."""
        return tuple(self.partition.ordered((*self.producer.anchors, *self.consumer.anchors)))

    @property
    def has_reduction(self) -> bool:
        """Whether either side contains a reduction."""
        return self.producer.has_reduction or self.consumer.has_reduction

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes, in the order of the graph."""
        return self.partition.ordered((*self.producer.nodes, *self.consumer.nodes))

    @cached_property
    def nest(self) -> Nest:
        """The loop nest of all nodes except the anchors. A single node extends the analysis of the producer.
        Raises NotOneNest.
        """
        if len(self.consumer.nodes) > 1 or self.producer.nest is None:
            return analyze([n for n in self.nodes if n not in self.anchors])
        return extended(self.producer.nest, self.consumer.nodes[0])

    def merged(self) -> KernelGroup:
        """Both sides as one group."""
        return KernelGroup(self.nodes, self.anchors, self.nest)

    @cached_property
    def members(self) -> frozenset[Node]:
        """All nodes."""
        return frozenset(self.nodes)

    def stored(self) -> list[Value]:
        """The values that the merged kernel stores, given the nodes that have joined so far."""
        outputs = self.partition.graph.outputs
        results = (value for node in self.nodes for value in node.outputs)
        return [v for v in results if v in outputs or not self.members.issuperset(v.users)]

    def bytes_saved(self, members: Sequence[Node]) -> list[Dim]:
        """The memory traffic that the merge saves, in bytes, for each of ``members``, the nodes whose results
        the consumer reads. It saves the reads of these results, and the writes of results that nothing else
        reads. Reads of values that both sides read are counted for the first node.
        """
        passed = [self._passed(member) for member in members]
        passed[0] += self._shared()
        return list(map(self.partition.bytes_of, passed))

    def _shared(self) -> list[TensorType]:
        """The bytes of values that both sides read, without constants."""
        ours, theirs = frozenset(self.producer.nodes), frozenset(self.consumer.nodes)
        read = dict.fromkeys(
            v for n in self.consumer.nodes for v in n.inputs if v is not None and len(v.uses) > 1
        )
        outside = (v for v in read if v.producer not in ours and v.producer not in theirs)
        return [v.type for v in outside if not ours.isdisjoint(n for n, _ in v.uses) and not is_constant(v)]

    def _passed(self, member: Node) -> list[TensorType]:
        """The bytes of each read and write of the results of ``member`` that the merge saves."""
        saved: list[TensorType] = []
        for value in member.outputs:
            if not self._is_renamed(value):
                saved += [value.type] if self.is_kept(value) else [value.type, value.type]
        return saved

    def _is_renamed(self, value: Value) -> bool:
        """Whether the consumer only makes views of ``value``, which read nothing."""
        readers = (user for user, _ in value.uses if user in self.consumer.nodes)
        return all(Trait.VIEW in reader.op.traits for reader in readers)

    def is_kept(self, value: Value) -> bool:
        """Whether the merged kernel still stores ``value``, or the value that it is a view of."""
        while True:
            if not self.members.issuperset(user for user, _ in value.uses):
                return True
            if value in self.partition.graph.outputs:
                return True
            node = value.producer
            if node not in self.members or Trait.VIEW not in node.op.traits:
                return False
            value = node.operand(0)
