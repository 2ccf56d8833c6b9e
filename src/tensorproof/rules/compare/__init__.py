"""Rules about two models that are compared, CMP1xx."""
