"""Python source as people keep it: folders, files in any encoding, notebooks, and comments that silence a rule.

What is wrong with one file is a `SourceError`, so that the others can still be looked at.
"""
