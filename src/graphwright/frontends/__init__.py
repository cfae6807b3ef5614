"""Reads models of other systems into modules, one folder each."""
