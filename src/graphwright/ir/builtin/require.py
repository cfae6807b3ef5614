"""The Require op: a constraint that inference assumed inside a branch, checked when the branch runs."""

from __future__ import annotations

from graphwright.ir.op import Inference, Op, Trait, op
from graphwright.ir.symbols import Constraint, Dim


@op("Require")
class Require(Op):
    """Ends the run with an error unless ``left == right`` or ``left <= right``. No operands, no outputs."""

    relation: str
    left: Dim
    right: Dim
    traits = Trait.EFFECT
    outputs = 0

    def infer(self, at: Inference) -> tuple[()]:
        left, right = self.left, self.right
        if isinstance(left, int) and isinstance(right, int) and not self.holds(left, right):
            raise at.fail(f"{self.left} {self.relation} {self.right} does not hold")
        return ()

    def holds(self, left: int, right: int) -> bool:
        """Whether the relation holds for two numbers."""
        return left == right if self.relation == "==" else left <= right

    def reference(self) -> tuple[()]:
        left, right = self.left, self.right
        if not isinstance(left, int) or not isinstance(right, int) or not self.holds(left, right):
            raise RuntimeError(f"{self.left} {self.relation} {self.right} does not hold")
        return ()

    def constraint(self, node: str) -> Constraint:
        """The requirement as an entry of the symbol table."""
        return Constraint(self.relation, self.left, self.right, node)
