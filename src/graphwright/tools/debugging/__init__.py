"""Finds the pass, kernel or node that makes the results of a compiled model wrong."""
