"""Faults that are planted in one backend, at the boundary of its operators: `keras:torch?with=tests.planted_faults.NAME`.

Each module says in `FAULT` on which layers its fault shows, and which parameters must differ from their defaults for it. It plants
the fault only when a worker process imports it.
"""
