"""Shape defects in Python source: an abstract interpreter over `ast` that knows the tensor libraries by tables of rules.

No framework is imported. `analyse_source` is the whole of it: text in, problems and hints out.
"""
