"""Search for inputs and weights on which frameworks part, or return NaN: AUDEE's input, weight and joint level.

space.py             what may be changed, and how far
goals.py             how close a point is to the failure that is looked for
searching.py         one search: a goal, a space, a budget of evaluations
genetic.py           AUDEE's genetic algorithm
gradients.py         sign steps along gradients, where a backend has them
coverage_guided.py   random mutation that keeps what shows new activations: the baseline of AUDEE's table 3
"""
