"""PyTorch programs: `program.py` observes one, `replay.py` is the script that replays its failures.

An operator that can fail is a suspect (`suspects.py`). What the program is given from outside has names (`external.py`), and what
it computes is recorded (`recording.py`), so that the objective of a suspect can be differentiated (`search.py`), and values moved
towards its failure (`driving.py`).
"""
