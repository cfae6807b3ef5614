"""The verbs of ``graphwright``: one file has one of them."""
