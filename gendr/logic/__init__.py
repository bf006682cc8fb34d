"""Logic gate networks: gates are trained by gradients, and run as bits.

    >>> model = nn.Sequential(
    ...     Binarize(), LogicLayer(784, 8000), LogicLayer(8000, 8000), GroupSum(10, tau=10)
    ... )
    >>> circuit = harden(model)          # after training
    >>> circuit(images)

For images there are convolutions by trees of gates:

    >>> model = nn.Sequential(
    ...     Binarize(), LogicConv2d(1, 16, kernel_size=5), OrPool2d(2), nn.Flatten(),
    ...     LogicLayer(2304, 4000), GroupSum(10, tau=10),
    ... )
    >>> circuit = harden(model, input_shape=(1, 28, 28))

Names are imported when they are first used: a saved circuit runs without torch.

Source: thesis, chapter 6; convolutions: Petersen et al., NeurIPS 2024.
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
