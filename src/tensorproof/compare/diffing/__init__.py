"""`tensorproof diff`: two models side by side."""
