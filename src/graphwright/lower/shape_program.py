"""Compiles symbolic sizes to shape programs."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.graph import Value
from graphwright.ir.sizes import SizeRange, scaled_symbol, span_of
from graphwright.ir.symbols import Dim, Expr, Function, Symbol, SymbolTable
from graphwright.low_ir.tasks import Code, Instruction, Reg

_FUNCTIONS = {"floordiv": Code.FLOORDIV, "mod": Code.MOD, "min": Code.MIN, "max": Code.MAX}
_CHECKS = {"==": Code.CHECK_EQ, "<=": Code.CHECK_LE}
_GUARDS = {"==": Code.GUARD_EQ, "<=": Code.GUARD_LE, "!=": Code.GUARD_NE}


class ShapeProgramBuilder:
    """Appends instructions; equal expressions share one register."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[object, Reg] = {}

    def bind_inputs(self, inputs: Sequence[Value], symbols: SymbolTable) -> None:
        """Binds symbols to dims of the inputs. Then it checks the declared ranges, the guards of the module,
        and its constraints, in this order: a constraint may rely on a guard.
        """
        axes = [
            (number, axis, dim) for number, v in enumerate(inputs) for axis, dim in enumerate(v.type.dims)
        ]
        bound = [axis for axis in axes if self._bind(*axis)]
        declared = SymbolTable(symbols.ranges, symbols.multiples)  # without what guards and constraints imply
        for number, axis, dim in axes:
            given, where = self._add(Code.DIM, number, axis), f"axis {axis} of {inputs[number].name!r}"
            if (number, axis, dim) in bound:
                self._check_span(given, dim, span_of(dim, declared), where)
            else:
                self._check(Code.CHECK_EQ, given, self.register(dim), f"{where} must be {dim}")
        for known, codes in ((symbols.guards, _GUARDS), (symbols.constraints, _CHECKS)):
            for each in known:
                left, right = self.register(each.left), self.register(each.right)
                self._check(codes[each.relation], left, right, f"{each} (node {each.node})")

    def _bind(self, number: int, axis: int, dim: Dim) -> bool:
        """Binds the symbol of an axis to its size, if the symbol is not bound yet; returns whether it did."""
        scaled = scaled_symbol(dim)
        if scaled is None or Symbol(scaled[0]) in self._known:
            return False
        name, scale = scaled
        size = self._add(Code.DIM, number, axis)
        self._known[Symbol(name)] = (
            size if scale == 1 else self._add(Code.FLOORDIV, size, self.register(scale))
        )
        return True

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
                hint = "make the inputs that determine it constants, or remove the outputs that need it"
                raise ModelError(Diagnostic("data-dependent", message, hint=hint))
            return self._known[atom]
        first, *rest = map(self.register, atom.operands)
        for operand in rest:
            first = self._add(_FUNCTIONS[atom.name], first, operand)
        return first

    def _constant(self, number: int) -> Reg:
        if not -(2**63) <= number < 2**63:
            raise ModelError(Diagnostic("size", f"the number {number} in a size exceeds 64 bits"))
        return self._add(Code.CONST, number)

    def _check_span(self, given: Reg, dim: Dim, span: SizeRange, where: str) -> None:
        """Checks that an axis to which ``dim`` is bound has one of the sizes of ``span``."""
        note = f"{where} must be {span.words}"
        if span.low > 0:
            self._check(Code.CHECK_LE, self.register(span.low), given, note)
        if span.high is not None:
            self._check(Code.CHECK_LE, given, self.register(span.high), note)
        if span.multiple > 1:
            steps = self._add(Code.FLOORDIV, given, self.register(span.multiple))
            self._check(Code.CHECK_EQ, self._add(Code.MUL, steps, self.register(span.multiple)), given, note)

    def _check(self, code: Code, a: Reg, b: Reg, note: str) -> None:
        if a != b:
            self.instructions.append(Instruction(code, a, b, note))

    def _add(self, code: Code, a: int, b: int = 0) -> Reg:
        key = (code, a, b)
        if key not in self._known:
            self._known[key] = len(self.instructions)
            self.instructions.append(Instruction(code, a, b))
        return self._known[key]
