"""Operators: one block each, files by mathematical family; `table` collects them."""
