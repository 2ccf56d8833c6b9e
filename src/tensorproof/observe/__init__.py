"""What a real run of PyTorch shows: the operators that make values NaN or infinite, at the user's own lines.

`eager` observes every operator of a run, `watching` watches a training loop at little cost and replays a failing step under
`eager`, `bundle` keeps such a step on disk. torch is imported inside functions only.
"""
