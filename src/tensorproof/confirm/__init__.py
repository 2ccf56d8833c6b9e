"""Confirmation: concrete inputs that make a finding fire in a real runtime."""
