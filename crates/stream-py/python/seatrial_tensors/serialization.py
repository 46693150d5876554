"""The names of tensorizer.serialization; each lives in a module of its own."""

from typing import Any, Callable

from ._native import CryptographyError, HashMismatchError
from .deserializer import TensorDeserializer
from .encryption import DecryptionParams, EncryptionParams
from .names import TensorType
from .serializer import TensorSerializer

# Takes a name, or a path as a tuple of strings and numbers, and says whether the tensor is wanted.
FilterFuncType = Callable[[Any], Any]

__all__ = [
    "TensorSerializer",
    "TensorDeserializer",
    "TensorType",
    "CryptographyError",
    "HashMismatchError",
    "EncryptionParams",
    "DecryptionParams",
    "FilterFuncType",
]
