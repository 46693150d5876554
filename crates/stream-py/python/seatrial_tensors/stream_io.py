"""Opens files, http(s):// and s3:// as tensorizer.stream_io does.

A remote stream is asked for nothing before somebody reads it: a deserializer that is given one reads the
model on connections of its own, in ranges beside each other.
"""

import configparser
import io
import os
from pathlib import Path

from ._native import Place, Reader

__all__ = ["open_stream", "CAInfo", "RemoteFile"]

# Bytes that are asked for at least.
_BUFFER = 1 << 20


class CAInfo:
    """Which certificates are believed: those of the file ``cacert``.

    Differs: a directory (``capath``) and no check at all (``allow_untrusted``) are refused.
    """

    __slots__ = ("cacert",)

    def __init__(self, *, cacert=None, capath=None, allow_untrusted=False):
        if capath is not None or allow_untrusted:
            raise ValueError("only cacert is supported: name one file of the certificates to believe")
        if cacert is None or not os.path.isfile(cacert):
            raise ValueError(f"cacert is to name a file of certificates; {cacert!r} is none")
        self.cacert = os.fspath(cacert)


class RemoteFile(io.BufferedReader):
    """What lies behind a URL, read on demand. ``place`` says where, without what a query may hide."""

    def __init__(self, place, begin=0, end=None):
        super().__init__(_Ranges(place, begin, end), _BUFFER)
        self.place = place
        self.whole = begin == 0 and end is None


class RemoteTarget(io.RawIOBase):
    """An ``s3://`` object to be written by a ``TensorSerializer``, which sends it in parts."""

    def __init__(self, place):
        self.place = place

    def writable(self):
        return True

    def write(self, data):
        raise io.UnsupportedOperation("only a TensorSerializer writes to s3://: write a file and upload that")


class _Ranges(io.RawIOBase):
    """Ranges of a place as a raw stream."""

    def __init__(self, place, begin, end):
        if begin < 0 or (end is not None and end <= begin):
            raise ValueError(f"bytes {begin} to {end} are no range")
        self._place, self._begin, self._end = place, begin, end
        self._reader = None
        self._at = begin

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, into):
        size = self._opened()
        piece = self._reader.read_at(self._at, max(0, min(len(into), size - self._at)))
        into[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def tell(self):
        return self._at - self._begin

    def seek(self, offset, whence=io.SEEK_SET):
        start = {io.SEEK_SET: lambda: self._begin, io.SEEK_CUR: lambda: self._at, io.SEEK_END: self._opened}
        at = start[whence]() + offset
        if at < self._begin:
            raise ValueError("a stream does not begin before its first byte")
        self._at = at
        return self.tell()

    def _opened(self):
        """Where the range ends, which takes a request when it is first asked."""
        if self._reader is None:
            self._reader = Reader(self._place)
        size = self._reader.size
        return size if self._end is None else min(size, self._end)


def open_stream(
    path_uri,
    mode="rb",
    s3_access_key_id=None,
    s3_secret_access_key=None,
    s3_endpoint=None,
    s3_config_path=None,
    buffer_size=None,
    force_http=None,
    *,
    begin=None,
    end=None,
    s3_region_name=None,
    s3_signature_version=None,
    certificate_handling=None,
):
    """A file object for a path, an http(s):// URL or an s3:// URI.

    Who asks S3, in this order: the arguments (empty strings: nobody), ``s3_config_path`` or
    ``~/.s3cfg``, the environment and the files that the AWS tools read. Where it is asked: the argument,
    ``host_base`` of the file, ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL``.

    ``s3://`` may be opened to write (``"wb"``, ``"wb+"``) for a ``TensorSerializer``.

    Differs: without any endpoint AWS is asked. Other URLs are read only; ``redis://`` and signatures of
    version 2 are refused. ``buffer_size`` means files only.
    """
    scheme = _scheme(path_uri)
    if scheme is None:
        return _open_file(path_uri, mode, buffer_size, begin)
    writes = scheme == "s3" and mode in ("wb", "wb+")
    if sorted(mode) != ["b", "r"] and not writes:
        raise ValueError(f'{scheme}:// is read only, in mode "rb": write a file and upload that')
    if s3_signature_version not in (None, "s3v4", "v4"):
        raise ValueError("requests are signed with version 4 only: leave s3_signature_version out")
    place = place_of(
        path_uri,
        s3_access_key_id,
        s3_secret_access_key,
        s3_endpoint,
        s3_config_path,
        force_http,
        s3_region_name,
        certificate_handling,
    )
    return RemoteTarget(place) if writes else RemoteFile(place, begin or 0, end)


def to_write(path_uri):
    """A place that takes a model tensor by tensor: a path, or an s3:// URI."""
    scheme = _scheme(path_uri)
    if scheme not in (None, "s3"):
        raise ValueError(f"{scheme}:// cannot be written to: write a file and upload that")
    return place_of(os.fsdecode(path_uri) if scheme is None else path_uri)


def place_of(
    path_uri,
    access_key=None,
    secret_key=None,
    endpoint=None,
    config_path=None,
    force_http=None,
    region=None,
    certificates=None,
):
    """Where something lies and how it is reached, from what callers and ``.s3cfg`` say."""
    scheme = _scheme(path_uri)
    if scheme is None:
        return Place(os.fspath(path_uri), local=True)
    if scheme == "s3":
        said = _s3cfg(config_path) if access_key is None or secret_key is None else {}
        access_key = said.get("access_key") if access_key is None else access_key
        secret_key = said.get("secret_key") if secret_key is None else secret_key
        endpoint = endpoint or said.get("host_base")
        if force_http is None and "use_https" in said:
            force_http = said["use_https"].lower() == "false"
        if endpoint and "://" not in endpoint:
            endpoint = f"{'http' if force_http else 'https'}://{endpoint}"
    return Place(
        path_uri,
        access_key=access_key,
        secret_key=secret_key,
        endpoint=endpoint or None,
        region=region,
        ca_file=certificates and certificates.cacert,
    )


def _scheme(path_uri):
    """Of a URL its scheme; of a path nothing, whatever a ``Path`` looks like."""
    if not isinstance(path_uri, str):
        return None
    scheme, found, _ = path_uri.partition("://")
    return scheme.lower() if found else None


def _open_file(path, mode, buffer_size, begin):
    if "b" not in mode:
        raise ValueError(f'{mode!r} is no binary mode: "rb", "wb" or "wb+" are')
    if set(mode) & set("wax"):
        Path(os.fsdecode(path)).parent.mkdir(parents=True, exist_ok=True)
    size = io.DEFAULT_BUFFER_SIZE if buffer_size is None else buffer_size
    file = open(path, mode, buffering=size)
    file.seek(begin or 0)
    return file


def _s3cfg(path):
    """The default section of s3cmd's file; empty where there is none and none was named."""
    if path is not None and not os.path.exists(path):
        raise FileNotFoundError(f"s3_config_path names {os.fsdecode(path)}, which is not there")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read([os.path.expanduser("~/.s3cfg") if path is None else path])
    return {key: value for key, value in parser["default"].items() if value} if "default" in parser else {}
