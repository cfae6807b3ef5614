"""Times and memory of models, alone and beside other engines."""
