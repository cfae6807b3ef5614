"""Factorizations of matrices. They run in Python, on NumPy's functions."""
