"""Targets that kernels can be generated for, one folder each."""
