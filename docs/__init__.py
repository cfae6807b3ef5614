"""Writes the generated parts of the documentation."""
