"""`gendr.photos.splatting`, by the name that users write."""

import sys
from typing import TYPE_CHECKING

from gendr.photos import splatting

if TYPE_CHECKING:
    from gendr.photos.splatting import *  # noqa: F403

sys.modules[__name__] = splatting
