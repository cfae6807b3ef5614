"""Compiles modules of graphs to packages."""
