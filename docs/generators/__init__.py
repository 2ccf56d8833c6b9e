"""The reference, written from the code: one module per part, each with a function that gives pages by their path."""
