"""The context in which kernel candidates work: what they can ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import partial
from typing import Any

from graphwright.cost.choices import NOTHING_MEASURED, Choices
from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.constants.deferred import Deferred, Packing
from graphwright.ir.constants.mapped import release
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.op import Array, ConstRef
from graphwright.ir.op.plugin_ops import guarded, is_plugin_op
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.types import DType, Layout, TensorType, dtype_of
from graphwright.kernels.candidates.generated import GeneratedKernels, KernelCost
from graphwright.kernels.candidates.truth_bytes import on_bytes
from graphwright.kernels.kernel_choice import NotTaken
from graphwright.kernels.launch import Alias, Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.layout.transform import pack_jobs, packed_shape
from graphwright.passes.cse import nodes_key
from graphwright.records import dataclass, field
from graphwright.targets.base import Target
from graphwright.targets.cpu.isa import ISAS, Isa
from graphwright.targets.cpu.user_code import CSource


class Unsupported(Exception):
    """The target cannot run the kernel that a candidate needs; the message says why."""


@dataclass
class Context:
    """The context of a candidate: the target, the constant pool, the symbols, and the kernels generated so
    far, which all candidates share; and what this candidate has asked for.
    """

    target: Target
    constants: ConstantPool
    symbols: SymbolTable
    numerics: str = "default"
    generated: GeneratedKernels = field(default_factory=GeneratedKernels)
    choices: Choices = NOTHING_MEASURED
    chosen: list[object] = field(default_factory=list)
    """The choices made so far with their alternatives, for the report and for tuning."""
    _packed: dict[Value, dict[Layout, Value]] = field(default_factory=dict)
    _derived: dict[tuple[Value, str], Value] = field(default_factory=dict)
    weighed: list[NotTaken] = field(default_factory=list)
    """The alternatives that the candidate considered and did not take."""
    prepared: list[Launch] = field(default_factory=list)
    """The launches that run before those that the candidate returns."""
    temporaries: list[Value] = field(default_factory=list)
    graph: Graph | None = None
    """The graph of the node, which gets new constants."""
    plugin: str = ""
    """The plugin of the candidate; constants that it derives are not shared with others."""

    @property
    def isa(self) -> Isa:
        """The ISA of the kernel library. Raises Unsupported for a target that cannot run its kernels."""
        if not self.target.library:
            raise Unsupported(without_library(self.target))
        return ISAS[self.target.library].on(self.target.machine)

    def inner(self, node: Node, plugin: str) -> Context:
        """The context of a candidate of ``plugin`` for ``node``: it shares what all candidates share, and has
        asked for nothing.
        """
        own, graph = copy(self), self.graph if node.graph is None else node.graph
        own.graph, own.plugin = graph, plugin or self.plugin
        own.weighed, own.prepared, own.temporaries = [], [], []
        return own

    def choose(self, kind: str, node: Node, alternatives: Sequence[str], *details: Hashable) -> str:
        """Chooses one of ``alternatives``, all valid, to compute ``node``; the predicted one is first.
        ``details`` distinguish this node from others with the same content.
        """
        content = nodes_key((node,)) if self.choices.is_kept else ()
        return self.choices.choose(kind, (content, details), alternatives, (node,), self.chosen).taken

    def generate(self, kernel: Kernel, comment: str) -> KernelRef:
        """Adds ``kernel`` to the kernels of the model; ``comment`` says what it is for. Raises
        Unsupported.
        """
        refusal = self.target.kernel_refusal(kernel)
        if refusal is not None:
            raise Unsupported(refusal)
        return self.generated.add(on_bytes(kernel), comment)

    def cost_of(self, ref: KernelRef, kernel: Kernel) -> KernelCost:
        """The cost of a launch of ``kernel``, which was generated as ``ref``."""
        return self.generated.cost_of(ref, on_bytes(kernel), self.target)

    def c_function(self, source: CSource, name: str) -> KernelRef:
        """The function ``name`` of a plugin's C code, which is compiled with the model. Raises
        PluginError.
        """
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,100}", name):
            raise PluginError(
                Diagnostic("plugin-source", f"{name!r} is not a valid name of a C function", source.file)
            )
        return self.generated.add_source(source, name)

    def temporary(self, type: TensorType, name: str, layout: Layout | None = None) -> Value:
        """A temporary value, whose memory is private to the current node."""
        value = Value(type, name, layout)
        self.temporaries.append(value)
        return value

    def table(self, array: Array, name: str) -> Value:
        """A new constant in the graph of the current node."""
        return self._constant(self.constants.add(array), TensorType(dtype_of(array), array.shape), name)

    def _constant(self, ref: ConstRef, type: TensorType, name: str) -> Value:
        graph = self.graph
        if graph is None:
            raise ValueError("no candidate is being tried")
        node = Node(Constant(ref, type), (), [type], name=name)
        graph.insert(node, next(iter(graph)))
        return node.output

    def prepare(self, launch: Launch) -> None:
        """Runs ``launch`` before the launches that the candidate returns."""
        self.prepared.append(launch)

    def constant(self, value: Value | None) -> Array | None:
        """The elements of ``value`` if it is a row-major constant, else None."""
        constant = constant_of(value)
        if value is None or constant is None or value.layout is not None:
            return None
        return self.constants[constant.value]

    def packed(self, value: Value, layout: Layout, shape: tuple[int, ...] | None = None) -> Value:
        """The constant ``value`` in ``layout``, packed once however many nodes use it.

        ``shape`` is the view of the value that the layout applies to; the value itself then stays unchanged.
        """
        packed = self._packed.setdefault(value, {})
        if layout not in packed:
            array, ref = self._source(value)
            node = value.producer
            if node is None or node.graph is None:
                raise ValueError(f"{value!r} is in no graph")
            viewed = value.type if shape is None else TensorType(value.type.dtype, shape)
            source = array.reshape(array.shape if shape is None else shape)
            deferred = Deferred(
                value.type.dtype,
                packed_shape(source.shape, layout),
                lambda out: pack_jobs(out, source, layout),
            )
            how, packing = f"{viewed} {layout}", Packing(ref.digest, source.shape, layout)
            ref = self.constants.add_derived(ref, how, deferred, packing=packing)
            constant = Node(Constant(ref, viewed), (), [viewed], name=value.name, sources=node.sources)
            node.graph.insert(constant, node)
            constant.output.layout = layout
            packed[layout] = constant.output
        return packed[layout]

    def derived(
        self,
        value: Value,
        kind: str,
        shape: tuple[int, ...],
        fill: Callable[[Array, Array], None],
        dtype: DType | None = None,
    ) -> Value:
        """A new constant that ``fill(out, array)`` computes from the constant ``value``, once for each
        ``kind``.

        ``shape`` and ``dtype`` are those of the result; the dtype is by default that of ``value``.
        """
        kind = f"{self.plugin}: {kind}" if self.plugin else kind
        if (value, kind) not in self._derived:
            array, ref = self._source(value)
            type = TensorType(dtype or value.type.dtype, shape)
            deferred = Deferred(type.dtype, shape, lambda out: (partial(_filled, out, array, fill),))
            derived = self.constants.add_derived(ref, f"{kind} {self.isa.name}", deferred)
            self._derived[value, kind] = self._constant(derived, type, f"{value.name} {kind}")
        return self._derived[value, kind]

    def _source(self, value: Value) -> tuple[Array, ConstRef]:
        """The elements of a constant, and its reference in the pool."""
        array, constant = self.constant(value), constant_of(value)
        if array is None or constant is None:
            raise ValueError(f"{value!r} is not a constant")
        return array, constant.value

    def packed_from(self, value: Value) -> list[Value]:
        """The packed versions of ``value`` that have its own shape."""
        return [constant for constant in self._packed.get(value, {}).values() if constant.type == value.type]


def without_library(target: Target) -> str:
    """Why no kernel of the library computes a node."""
    return f"no kernel of the library runs on {target.name}"


def _filled(out: Array, array: Array, fill: Callable[[Array, Array], None]) -> None:
    """Calls ``fill``. Raises PluginError if that of a plugin fails."""
    if is_plugin_op(fill):
        guarded(lambda: fill(out, array), fill, "deriving a constant")
    else:
        fill(out, array)
    release(array)


CandidateResult = Run | Launch | Alias | str
"""How a node is computed, or the reason why the candidate does not apply."""
Candidate = Callable[[Node[Any], Context], CandidateResult]
"""A way to compute nodes of the ops that it is registered for."""
