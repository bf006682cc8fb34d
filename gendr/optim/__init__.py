"""Optimisers, with the interface of those of torch.

>>> optimizer = UniformAdam(shape.parameters(), lr=0.03, betas=(0.9, 0.99))
>>> loss.backward()
>>> optimizer.step()
"""

from gendr.optim.uniform_adam import UniformAdam, uniform_adam_step

__all__ = ["UniformAdam", "uniform_adam_step"]
