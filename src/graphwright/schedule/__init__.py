"""Scheduling: the order of steps, their streams, and their dependencies."""
