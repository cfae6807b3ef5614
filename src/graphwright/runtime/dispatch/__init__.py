"""Runs dispatches: chooses an executable by the shapes of the inputs, or compiles one if that is allowed."""
