"""The files that compile options refer to: fusion rules, measured rates, and tuning records."""
