"""Models that no one program runs, cut into what the host runs and the parts between."""
