"""Checks and converts the inputs of a run."""
