"""Branches, loops and calls, and ops that the compiler inserts for dynamic shapes."""
