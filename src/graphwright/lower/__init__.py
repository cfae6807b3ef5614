"""Lowers scheduled steps of a graph to the low IR."""
