"""Processes that run tests: one per backend, environment and toggles."""
