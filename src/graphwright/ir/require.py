"""What a branch rests on: sizes that inference assumed inside it, checked when it is taken."""

from __future__ import annotations

from graphwright.ir.op import Inference, Op, Trait, op
from graphwright.ir.symbols import Constraint, Dim


@op("Require")
class Require(Op):
    """``left == right`` or ``left <= right``, else the run ends with an error. No operands, no outputs."""

    relation: str
    left: Dim
    right: Dim
    traits = Trait.EFFECT
    outputs = 0

    def infer(self, at: Inference) -> tuple[()]:
        if (
            isinstance(self.left, int)
            and isinstance(self.right, int)
            and not self.holds(self.left, self.right)
        ):
            raise at.fail(f"{self.left} {self.relation} {self.right} does not hold")
        return ()

    def holds(self, left: int, right: int) -> bool:
        """Whether two numbers are as required."""
        return left == right if self.relation == "==" else left <= right

    def reference(self) -> tuple[()]:
        if (
            not isinstance(self.left, int)
            or not isinstance(self.right, int)
            or not self.holds(self.left, self.right)
        ):
            raise RuntimeError(f"{self.left} {self.relation} {self.right} does not hold")
        return ()

    def constraint(self, node: str) -> Constraint:
        """The same as an entry of the symbol table."""
        return Constraint(self.relation, self.left, self.right, node)
