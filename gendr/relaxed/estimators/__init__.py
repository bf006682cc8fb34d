"""Gradients for what stays hard: estimators for any Python or NumPy function of arrays.

>>> soft = estimated(dijkstra, "smoothing", samples=10, scale=0.5)      # an array to an array
>>> path = soft(costs)                                                  # [B, H, W]; path.backward()
>>> soft.report.variance                                                # of this gradient

And losses around solvers of linear problems, min or max over w of <x, w>:

>>> loss = SPOPlusLoss(dijkstra, minimize=True)
>>> loss(predicted, costs, paths).backward()
>>> regret(predicted, costs, dijkstra, minimize=True)
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
