"""What runs inside a worker process. Frameworks are imported by these modules only, inside functions.

A backend module has `open_backend(backend_id: BackendId) -> Backend`; it raises `Unavailable` if its framework is not installed.
"""
