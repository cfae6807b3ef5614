"""Symbolic sizes compiled to shape programs."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim, Expr, Function, Range, Symbol, SymbolTable
from graphwright.lower.tasks import Code, Instruction, Reg

_FUNCTIONS = {"floordiv": Code.FLOORDIV, "mod": Code.MOD, "min": Code.MIN, "max": Code.MAX}


class ShapeProgramBuilder:
    """Appends instructions; equal expressions get one register."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[object, Reg] = {}

    def bind_inputs(self, inputs: Sequence[Value], symbols: SymbolTable) -> None:
        """Read symbols from the inputs' dims, then check everything that the module assumes of them."""
        for number, value in enumerate(inputs):
            for axis, dim in enumerate(value.type.dims):
                name = _bare_symbol(dim)
                if name is not None and Symbol(name) not in self._known:
                    self._known[Symbol(name)] = self._add(Code.DIM, number, axis)
        for number, value in enumerate(inputs):
            for axis, dim in enumerate(value.type.dims):
                place = f"input {value.name!r}, axis {axis}"
                self._check(
                    Code.CHECK_EQ, self._add(Code.DIM, number, axis), self.register(dim), f"{place} is {dim}"
                )
        for name, span in symbols.ranges.items():
            if Symbol(name) in self._known:
                self._check_range(name, span)
        for name, multiple in symbols.multiples.items():
            if Symbol(name) in self._known:
                rest = self._add(Code.MOD, self._known[Symbol(name)], self.register(multiple))
                self._check(Code.CHECK_EQ, rest, self.register(0), f"{name} is a multiple of {multiple}")
        for constraint in symbols.constraints:
            code = Code.CHECK_EQ if constraint.relation == "==" else Code.CHECK_LE
            left, right = self.register(constraint.left), self.register(constraint.right)
            self._check(code, left, right, f"{constraint} (node {constraint.node})")

    def register(self, dim: Dim) -> Reg:
        """The register that holds ``dim``."""
        if isinstance(dim, Expr):
            known = self._known.get(dim)
            if known is None:
                known = self._known[dim] = self._sum(dim)
            return known
        return self._constant(dim)

    def _sum(self, expr: Expr) -> Reg:
        total: Reg | None = None
        for monomial, coefficient in expr.terms:
            term: Reg | None = None
            for atom, power in monomial:
                factor = self._atom(atom)
                for _ in range(power):
                    term = factor if term is None else self._add(Code.MUL, term, factor)
            if term is None or coefficient != 1:
                scale = self._constant(coefficient)
                term = scale if term is None else self._add(Code.MUL, term, scale)
            total = term if total is None else self._add(Code.ADD, total, term)
        assert total is not None  # an Expr has terms
        return total

    def _atom(self, atom: Symbol | Function) -> Reg:
        if isinstance(atom, Symbol):
            if atom not in self._known:
                message = (
                    f"the size {atom} depends on the elements of a tensor, not on the shapes of the inputs"
                )
                hint = "give the inputs that decide it as constants, or prune the outputs that need it"
                raise ModelError(Diagnostic("data-dependent", message, hint=hint))
            return self._known[atom]
        first, *rest = map(self.register, atom.operands)
        for operand in rest:
            first = self._add(_FUNCTIONS[atom.name], first, operand)
        return first

    def _constant(self, number: int) -> Reg:
        if not -(2**63) <= number < 2**63:
            raise ModelError(Diagnostic("size", f"a size of {number} (or times that) is beyond 64 bits"))
        return self._add(Code.CONST, number)

    def _check_range(self, name: str, span: Range) -> None:
        register = self._known[Symbol(name)]
        if span.low > 0:
            self._check(Code.CHECK_LE, self.register(span.low), register, f"{name} is at least {span.low}")
        if span.high is not None:
            self._check(Code.CHECK_LE, register, self.register(span.high), f"{name} is at most {span.high}")

    def _check(self, code: Code, a: Reg, b: Reg, note: str) -> None:
        if a != b:
            self.instructions.append(Instruction(code, a, b, note))

    def _add(self, code: Code, a: int, b: int = 0) -> Reg:
        key = (code, a, b)
        if key not in self._known:
            self._known[key] = len(self.instructions)
            self.instructions.append(Instruction(code, a, b))
        return self._known[key]


def _bare_symbol(dim: Dim) -> str | None:
    if not isinstance(dim, Expr):
        return None
    ((monomial, coefficient), *more) = dim.terms
    if more or coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    return atom.name if isinstance(atom, Symbol) else None
