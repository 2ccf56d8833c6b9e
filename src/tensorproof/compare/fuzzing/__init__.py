"""`tensorproof fuzz`: campaigns of generated tests over several frameworks."""
