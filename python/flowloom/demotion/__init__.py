"""Demotion thresholds of a multi-level feedback queue (PIAS, section III-C): their cost, and the search for the best ones.

`sizes` has the distribution of flow sizes, `model` the queueing model, `solver` the optimiser, and `published` the thresholds
that were published. `analytic` combines them. `simulated` finds thresholds with the simulator, using `search`.
"""
