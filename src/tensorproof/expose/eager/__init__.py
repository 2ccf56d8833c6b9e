"""Eager programs of TensorFlow and Keras: `program.py` observes one, `replay.py` is the script that replays its failures.

`hooks.py` is where TensorFlow and Keras are listened to. As in `pytorch`, external values have names, and what the program
computes is recorded, so that objectives can be differentiated.
"""
