"""Writes modules and state dicts."""

from . import files
from ._native import Writer
from .arrays import file_type, is_tensor, raw_bytes
from .encryption import EncryptionParams, secret_of
from .names import TensorType, as_path, flatten

# Bytes of tensors that are written beside each other, and that a copy from a device takes at most.
_BATCH = 1 << 30


class TensorSerializer:
    """Writes tensors to a file or to S3, which official and own readers read.

    A path appears when ``close`` has been called and everything is on the disk, an ``s3://`` object when
    its last part is there; a serializer that is dropped or left by an exception leaves nothing. A file
    object is written where it is, and closed.

    Differs: it is a context manager; ``s3://`` is sent in parts and never lies on a disk; an object that
    is no file of the system gets its bytes on ``close`` and is left open. ``compress_tensors`` and
    ``limit_cpu_concurrency`` are accepted and do nothing.
    """

    def __init__(self, file_obj, compress_tensors=False, *, encryption=None, limit_cpu_concurrency=None):
        secret = secret_of(encryption, EncryptionParams)
        self._target = files.Target(file_obj)
        self._writer = Writer(self._target.place, secret=secret, open=self._target.open)
        self._bytes = self._tensors = 0

    @property
    def total_tensor_bytes(self):
        """Bytes of the tensors that were written."""
        return self._bytes

    def write_tensor(self, idx, name, tensor_type, tensor):
        """Writes one tensor: the place of its module, its name (or path), a ``TensorType``, and itself."""
        self._write([(as_path(name), TensorType(tensor_type), idx, tensor, None)])

    def write_module(self, m, remove_tensors=False, *, include_non_persistent_buffers=True):
        """Writes all parameters and buffers of a module; what is removed is ``None`` in it afterwards."""
        self._write(_rows(m, remove_tensors, include_non_persistent_buffers))

    def write_state_dict(self, state_dict):
        """Writes dictionaries and lists of tensors, however deep. Tensors may be torch's or numpy's."""
        leaves = flatten(state_dict, is_tensor)
        self._write((path, TensorType.STATE_DICT, 0, tensor, None) for path, tensor in leaves)

    def close(self):
        """Writes the index and closes the file. A file without a tensor is an error: no reader takes it."""
        if self._writer is None:
            return
        if self._tensors == 0:
            self._writer = None
            raise ValueError("nothing was written: a model has at least one tensor")
        writer, self._writer = self._writer, None
        writer.finish()
        self._target.finish()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.close()
        self._writer = None

    def _write(self, rows):
        batch, removals, size = [], [], 0
        for path, kind, module, tensor, remove in rows:
            data = None if getattr(tensor, "is_meta", False) else raw_bytes(tensor)
            batch.append((path, int(kind), module, file_type(tensor), list(tensor.shape), data))
            removals.append(remove)
            size += 0 if data is None else data.nbytes
            if size >= _BATCH:
                self._add(batch, removals, size)
                batch, removals, size = [], [], 0
        self._add(batch, removals, size)

    def _add(self, batch, removals, size):
        if self._writer is None:
            raise ValueError("this serializer is closed")
        self._writer.add(batch)
        self._bytes += size
        self._tensors += len(batch)
        for remove in removals:
            if remove is not None:
                remove()


def _rows(module, remove, with_non_persistent):
    """The tensors of a module, named as tensorizer names them: those of the root begin with a dot."""
    for place, (path, part) in enumerate(list(module.named_modules())):
        fleeting = getattr(part, "_non_persistent_buffers_set", ())
        buffers = [
            (name, tensor)
            for name, tensor in part.named_buffers(recurse=False)
            if with_non_persistent or name not in fleeting
        ]
        kinds = [
            (TensorType.PARAM, list(part.named_parameters(recurse=False))),
            (TensorType.BUFFER, buffers),
        ]
        for kind, tensors in kinds:
            for name, tensor in tensors:
                forget = _removal(part, name) if remove else None
                yield (f"{path}.{name}",), kind, place, tensor, forget


def _removal(module, name):
    return lambda: setattr(module, name, None)
