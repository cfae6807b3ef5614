"""Profiles of runs: what the event sink recorded, as tables, traces and pages."""
