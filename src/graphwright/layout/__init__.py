"""Layouts: how values lie in memory, which nodes work on which, and the one op that changes one."""
