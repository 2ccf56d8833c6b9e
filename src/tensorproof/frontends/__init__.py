"""Front ends: each reads one kind of model into `tensorproof.graph.Model`; frameworks are imported inside functions."""
