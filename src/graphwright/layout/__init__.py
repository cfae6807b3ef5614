"""Layouts: how values lie in memory, and the one op that changes it."""
