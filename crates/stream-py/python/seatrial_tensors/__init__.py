"""Model weights streamed into memory, under the names of the Python package tensorizer.

Code that was written for tensorizer runs by changing its import. Where this package does something else,
the docstring of the class or function says so under "Differs".
"""

from . import serialization, stream_io, utils
from .serialization import *  # noqa: F403
from .serialization import HashMismatchError

__all__ = [*serialization.__all__, "HashMismatchError", "serialization", "stream_io", "utils"]
