"""Shows recorded events of runs as tables, traces and HTML pages."""
