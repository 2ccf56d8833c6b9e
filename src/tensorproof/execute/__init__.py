"""Concrete execution: models run in a real runtime, in a process of their own."""
