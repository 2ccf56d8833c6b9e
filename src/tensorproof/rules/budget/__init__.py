"""Rules about a model that is compared with what was once measured of it, NUM6xx."""
