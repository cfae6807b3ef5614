"""Utilities that do not depend on graphs: files, processes, message texts."""
