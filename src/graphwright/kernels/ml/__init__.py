"""Classical machine learning models."""
