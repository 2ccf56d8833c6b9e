"""Small pieces of networks with a known defect at one operator, each beside a twin that differs in the repair alone.

GRIST's benchmark is about logarithms, exponentials, divisions and square roots of losses in float32. These pairs are about what it
lacks: powers, inverse and special functions, norms and deviations, files with bad statistics or scales, formats of 16 bits, loops,
masks, samplers and derivatives. `pairs` says what a pair is, `catalogue` lists them, `running` establishes by real runs that each
claim is true. `benchmarks/paper/tables/operators.py` makes the table.
"""
