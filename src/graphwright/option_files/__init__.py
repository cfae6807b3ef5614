"""Files that options of a compilation name: fusion rules, measured rates, tuning records."""
