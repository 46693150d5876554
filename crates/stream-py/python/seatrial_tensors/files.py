"""What callers name as a model's file (a path, a URL, a number, an object) as a place that Rust opens.

A file of the system is opened anew by its number, so that it is read and written in parallel and past
Python's buffers. An object that is none is copied into one first, or out of one in the end.
"""

import io
import os
import shutil
import stat
import tempfile

from ._native import Place
from .stream_io import RemoteFile, RemoteTarget, place_of, to_write


def to_read(file_obj):
    """A place to read from, and what must be kept as long as it is read."""
    if isinstance(file_obj, (str, bytes, os.PathLike)):
        return place_of(os.fsdecode(file_obj) if isinstance(file_obj, bytes) else file_obj), None
    if isinstance(file_obj, int):
        return _local(_by_number(file_obj)), None
    if isinstance(file_obj, io.TextIOBase) or not _can(file_obj, "readable"):
        raise ValueError('a model is read from a file in binary mode: open it with "rb"')
    if isinstance(file_obj, RemoteFile):
        if not file_obj.whole:
            raise ValueError("a model is read as a whole: open the stream without begin and end")
        return file_obj.place, file_obj
    number = _number(file_obj)
    if number is not None:
        _at_beginning(file_obj, "read from")
        return _local(_path(file_obj, number)), file_obj
    copy = os.fdopen(os.memfd_create("model"), "wb+")
    shutil.copyfileobj(file_obj, copy, 8 << 20)
    copy.flush()
    return _local(_by_number(copy.fileno())), copy


class Target:
    """What is written to: a place where Rust writes, and what is to be done when it has."""

    def __init__(self, file_obj):
        self._file, self._copy = None, None
        self.open = True
        if isinstance(file_obj, RemoteTarget):
            self.place, self.open, self._file = file_obj.place, False, file_obj
            return
        if isinstance(file_obj, (str, bytes, os.PathLike)):
            self.place, self.open = to_write(file_obj), False
            if self.place.is_file:
                os.makedirs(os.path.dirname(os.fsdecode(file_obj)) or ".", exist_ok=True)
            return
        if isinstance(file_obj, int):
            self.place = _local(_by_number(file_obj))
            return
        if isinstance(file_obj, io.TextIOBase) or not _can(file_obj, "writable"):
            raise ValueError('a model is written to a file in binary mode: open it with "wb+"')
        self._file = file_obj
        number = _number(file_obj)
        if number is not None:
            _at_beginning(file_obj, "written to")
            file_obj.flush()
            self.place = _local(_path(file_obj, number))
            return
        self._copy = tempfile.TemporaryFile()
        self.place = _local(_by_number(self._copy.fileno()))

    def finish(self):
        """Closes a file of the system; gives an object that is none its bytes."""
        if self._copy is not None:
            self._copy.seek(0)
            shutil.copyfileobj(self._copy, self._file, 8 << 20)
            self._copy.close()
        elif self._file is not None:
            self._file.close()


def _local(path):
    return Place(path, local=True)


def _by_number(number):
    return f"/proc/self/fd/{number}"


def _path(file_obj, number):
    """Its name for errors, if that still leads to it; else its number."""
    name = getattr(file_obj, "name", None)
    try:
        if isinstance(name, str) and os.path.samestat(os.stat(name), os.fstat(number)):
            return name
    except OSError:
        pass
    return _by_number(number)


def _number(file_obj):
    """The number of a regular file behind an object; nothing of a pipe or of memory."""
    try:
        number = file_obj.fileno()
        return number if stat.S_ISREG(os.fstat(number).st_mode) else None
    except (AttributeError, OSError):
        return None


def _at_beginning(file_obj, done):
    if file_obj.tell() != 0:
        raise ValueError(f"a model is {done} the beginning of a file: seek(0) first")


def _can(file_obj, what):
    return getattr(file_obj, what, lambda: True)()
