"""Recurrent layers, each over a whole sequence in one launch."""
