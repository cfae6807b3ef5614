"""Ops on sequences and optional values."""
