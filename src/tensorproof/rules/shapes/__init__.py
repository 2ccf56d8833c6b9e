"""Rules about tensor shapes in Python source: errors are SHP1xx, warnings SHP2xx."""
