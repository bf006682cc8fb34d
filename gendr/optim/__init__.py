"""Optimisers, with the interface of those of torch, and other steps for losses behind algorithms.

>>> optimizer = UniformAdam(shape.parameters(), lr=0.03, betas=(0.9, 0.99))
>>> loss.backward()
>>> optimizer.step()

A loss behind an algorithm, a sort or a path, is ill-conditioned where the network is not:

>>> criterion = NewtonLoss(loss, curvature="fisher", tikhonov=0.1)     # loss(output, target) -> [N]
>>> criterion(model(x), target).backward()
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
