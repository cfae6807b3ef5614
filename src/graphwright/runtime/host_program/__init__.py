"""Runs host programs: calls programs, runs nodes in Python, binds data-dependent sizes."""
