"""Differential testing: two models that should compute the same (`diff`), and frameworks that should (`fuzz`).

spec.py       what a test is: a network as JSON, its inputs and weights as seeds
drawing.py    the arrays that a spec stands for: the same on every backend
judging.py    two results: do they agree, differ by rounding, or is one of them wrong?
workers/      a process per backend, kept alive, killed when it hangs, started again when it dies
backends/     what runs inside such a process: Keras on its backends, ONNX Runtime, OpenVINO, PyTorch, ...
reference/    layers in float64 NumPy: the judge that shares no code with a framework
catalogue/    layers and operators that tests are made of: parameters, legal and illegal values, shapes
diffing/      `tensorproof diff`: models side by side, the first operator at which they part, the search for an input
fuzzing/      `tensorproof fuzz`: campaigns, oracles, journal, localisation, minimal scripts
"""
