"""Rules about numerical habits in Python source, NUM5xx: what is written loses digits or overflows, whatever the model."""
