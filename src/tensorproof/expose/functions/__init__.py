"""The arguments of one function searched, no program: `running.py` is `tensorproof.expose_function`.

A user's words (`declaration.py`) and the function itself (`target.py`) say what it is called with (`arrangement.py`); the search
runs in a process of its own (`server.py`), on PyTorch (`on_pytorch.py`) or TensorFlow (`on_tensorflow.py`).
"""
