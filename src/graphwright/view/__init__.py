"""Pictures of a model: its graph at each stage, laid out, in one HTML page that loads nothing."""
