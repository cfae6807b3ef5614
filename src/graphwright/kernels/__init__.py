"""Kernels: the prebuilt library by families, the candidates that offer kernels for nodes, and their
selection.
"""
