"""Keys, as tensorizer's classes hold them. Neither of them ever shows its key when printed."""

import os
from enum import IntEnum

from ._native import Secret

_KEY = 32
_SALT = 16


class EncryptionParams:
    """What a file is encrypted with: a key of 32 bytes, which ``key`` tells so that it can be kept."""

    __slots__ = ("key", "_secret", "_salt")

    class OpsLimit(IntEnum):
        """Passes over the memory when a key is derived: libsodium's presets for Argon2id."""

        MIN = 1
        INTERACTIVE = 2
        MODERATE = 3
        SENSITIVE = 4

    class MemLimit(IntEnum):
        """Bytes of memory when a key is derived: libsodium's presets for Argon2id."""

        MIN = 8 << 10
        INTERACTIVE = 64 << 20
        MODERATE = 256 << 20
        SENSITIVE = 1 << 30

    def __init__(self, key):
        self.key = _checked(key)
        self._secret = Secret.key(self.key)
        self._salt = None

    @classmethod
    def random(cls):
        """A new key; keep ``key``, or nothing will open the file again."""
        return cls(os.urandom(_KEY))

    @classmethod
    def from_string(cls, source, opslimit=None, memlimit=None, salt=None, *, encoding="utf-8"):
        """A key that is derived from a passphrase by Argon2id.

        Without limits about a second and 256 MiB are spent, here and by every reader. The file tells
        the limits and the salt (16 bytes, random if it is not given).

        Differs: limits that this package's reader would refuse (more than 1 GiB, or more than 16 GiB
        in all passes) are refused here too.
        """
        source = _bytes(source, encoding)
        if isinstance(opslimit, cls.MemLimit) or isinstance(memlimit, cls.OpsLimit):
            raise TypeError("opslimit and memlimit are exchanged")
        salt = os.urandom(_SALT) if salt is None else bytes(_bytes(salt, encoding))
        if len(salt) != _SALT:
            raise ValueError(f"a salt has {_SALT} bytes, not {len(salt)}")
        opslimit = cls.OpsLimit.MODERATE if opslimit is None else opslimit
        memlimit = cls.MemLimit.MODERATE if memlimit is None else memlimit
        secret = Secret.derived(source, int(opslimit), int(memlimit), salt)
        params = cls(secret.expose())
        params._secret, params._salt = secret, salt
        return params

    @property
    def salt(self):
        """What the passphrase was mixed with; a ``ValueError`` if there was no passphrase."""
        if self._salt is None:
            raise ValueError("this key was not derived from a passphrase, so it has no salt")
        return self._salt


class DecryptionParams:
    """What a file is opened with: ``from_key`` or ``from_string``."""

    __slots__ = ("key", "source", "_secret")

    def __init__(self):
        self.key = self.source = self._secret = None

    @classmethod
    def from_key(cls, key):
        """The key itself: ``EncryptionParams.key``."""
        params = cls()
        params.key = _checked(key)
        params._secret = Secret.key(params.key)
        return params

    @classmethod
    def from_string(cls, source, *, encoding="utf-8"):
        """The passphrase of ``EncryptionParams.from_string``. Deriving takes as long as it did then."""
        params = cls()
        params.source = _bytes(source, encoding)
        params._secret = Secret.passphrase(params.source)
        return params


def secret_of(encryption, kind):
    """The secret that a caller gave, if any."""
    if encryption is None:
        return None
    if not isinstance(encryption, kind):
        got = type(encryption).__name__
        raise TypeError(f"encryption is to be of {kind.__name__} or None, not of {got}")
    if encryption._secret is None:
        raise ValueError(f"make {kind.__name__} by from_key or from_string: it has no key")
    return encryption._secret


def _checked(key):
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError("a key is bytes; a passphrase goes to from_string")
    if len(key) != _KEY:
        raise ValueError(f"a key has {_KEY} bytes, not {len(key)}; a passphrase goes to from_string")
    return bytes(key)


def _bytes(text, encoding):
    if not isinstance(text, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"a passphrase is a string or bytes, not {type(text).__name__}")
    if not text:
        raise ValueError("an empty passphrase keeps nothing secret")
    return text.encode(encoding) if isinstance(text, str) else bytes(text)
