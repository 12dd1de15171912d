"""Demotion thresholds of a multi-level feedback queue (PIAS, section III-C): what they cost, and which are best.

`sizes` is the distribution, `model` what thresholds cost in theory, `solver` the optimiser, `published` the sets that PIAS's
authors used; `analytic` puts these together. `simulated` asks the simulator instead of the theory, by way of `search`.
"""
