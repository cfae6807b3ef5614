"""Modules as files of other engines."""
