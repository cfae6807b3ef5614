"""The PyTorch frontend: graphs of ATen operators, read straight into the IR.

Each operator's import function stands in the op's own file (``Op.aten``). What has none is taken apart by
PyTorch's own decompositions, or stays with PyTorch.
"""
