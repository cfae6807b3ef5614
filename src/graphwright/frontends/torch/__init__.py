"""The PyTorch frontend: reads graphs of ATen operators into modules.

The import function of an operator is in the file of the op that it becomes (``Op.aten``). Other operators are
decomposed by PyTorch into simpler ones; an operator that cannot be decomposed runs in PyTorch.
"""
