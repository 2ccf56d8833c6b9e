"""Programs of TensorFlow sessions (version 1): `program.py` observes one, `replay.py` is the script that replays its failures.

What a call executes is read off the graph (`plan.py`); objectives and counters are operators that are added to it (`objective.py`,
`health.py`). `place.py` is for eager programs, too: the objectives of rules on tensors of TensorFlow.
"""
