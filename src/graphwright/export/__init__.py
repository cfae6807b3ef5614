"""Writes modules as files of other engines."""
