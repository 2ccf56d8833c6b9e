"""Reserved."""
