"""graphwright: an open graph engine for deep learning."""
