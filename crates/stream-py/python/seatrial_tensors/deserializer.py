"""Reads models, as a mapping or into a module."""

from collections.abc import Mapping
from typing import NamedTuple

from . import arrays, files
from ._native import CryptographyError, Model
from .encryption import DecryptionParams, secret_of
from .names import TensorType, as_mapping, as_tree, nest, shown
from .utils import get_device


class _Entry(NamedTuple):
    """What the file says of a tensor."""

    nth: int
    kind: TensorType
    dtype: str
    shape: tuple
    size: int
    is_meta: bool


class TensorDeserializer(Mapping):
    """The tensors of a file: a mapping from names to ``torch.nn.Parameter``, or into a module.

    All of it is read at once into one piece of memory, which tensors on the CPU look into, uncopied;
    with ``lazy_load`` each when it is asked for. Numbers and strings lead through nested state dicts.

    Differs: safetensors files are read too; without torch values are numpy arrays; ``dtype`` converts
    floating-point tensors and no others. ``num_readers`` and ``plaid_mode`` are accepted and do
    nothing: how many threads or connections are worth having is found out. Memory is freed with the
    last tensor of the load that took it. Other objects than files and streams of ``open_stream`` are
    first read whole into memory.
    """

    def __init__(
        self,
        file_obj,
        device=None,
        filter_func=None,
        dtype=None,
        *,
        lazy_load=False,
        plaid_mode=None,
        plaid_mode_buffers=None,
        num_readers=None,
        verify_hash=False,
        encryption=None,
    ):
        self._device = _device(device)
        self._dtype = dtype
        self._verify = bool(verify_hash)
        self._secret = secret_of(encryption, DecryptionParams)
        if num_readers is not None and (not isinstance(num_readers, int) or num_readers < 1):
            raise ValueError(f"num_readers is a positive number or None, not {num_readers!r}")
        place, self._file = files.to_read(file_obj)
        self._model = Model(place)
        if self._model.encrypted != (self._secret is not None):
            said = "is encrypted: give DecryptionParams" if self._model.encrypted else "is not encrypted"
            raise CryptographyError(f"{place!r} {said}")
        self._entries = {
            path: _Entry(nth, TensorType(kind), *facts)
            for nth, (path, kind, *facts) in enumerate(self._model.tensors())
            if filter_func is None or filter_func(shown(path))
        }
        self._tree = nest({path: path for path in self._entries})
        self._cache = {}
        self._read = 0
        if not lazy_load:
            self._fetch(self._entries, self._verify)
            self._close_file()

    # What a mapping has.

    def __getitem__(self, name):
        if name not in self._tree:
            raise KeyError(f"there is no tensor {name!r}")
        branch = self._tree[name]
        if isinstance(branch, tuple):
            return self._fetch([branch], self._verify)[branch]
        return as_mapping(self._below((name,), None))

    def __iter__(self):
        return iter(self._tree)

    def __len__(self):
        return len(self._tree)

    def __contains__(self, name):
        return name in self._tree

    def keys(self):
        return self._tree.keys()

    # What tensorizer's has.

    @property
    def total_tensor_bytes(self):
        """Bytes of the tensors that are wanted."""
        return sum(entry.size for entry in self._entries.values())

    @property
    def total_bytes_read(self):
        """Bytes of data that were read, those that lay between included."""
        return self._read

    @property
    def cache_status(self):
        """Nothing: answers' headers are not kept."""
        return None

    def tree(self, prefix=None, *, default=None, filter_func=None):
        """What lies below a path (all without one), lists as lists; ``default`` where nothing does."""
        if isinstance(prefix, (str, int)):
            raise TypeError(f"a prefix is a sequence: [{prefix!r}], not {prefix!r}")
        found = self._below(tuple(prefix or ()), filter_func)
        return default if found is None else as_tree(found)

    def load_into_module(self, m, filter_func=None, verify_hash=None):
        """Gives a module its parameters and buffers, and says how many there were."""
        modules = dict(m.named_modules())
        wanted = [path for path in self._entries if filter_func is None or filter_func(shown(path))]
        for path in wanted:
            if self._entries[path].kind is TensorType.STATE_DICT:
                raise NotImplementedError(
                    "this is a state dict and no module: use the deserializer as a mapping,"
                    " such as in load_state_dict(deserializer, assign=True)"
                )
            if path[0].rpartition(".")[0] not in modules:
                raise KeyError(f"the module has no part for the tensor {path[0]!r}")
        loaded = self._fetch(wanted, self._verify if verify_hash is None else verify_hash)
        for path in wanted:
            part, _, name = path[0].rpartition(".")
            module = modules[part]
            if self._entries[path].kind is TensorType.PARAM:
                module.register_parameter(name, loaded[path])
            else:
                lasting = name not in getattr(module, "_non_persistent_buffers_set", ())
                module.register_buffer(name, loaded[path].data, persistent=lasting)
        self._close_file()
        return len(wanted)

    def verify_module(self, m):
        """Whether a module holds what was written, by the file's hashes; and that of each tensor."""
        theirs = {**m.state_dict(), **dict(m.named_buffers())}
        results = []
        for path, entry in self._entries.items():
            name = shown(path)
            # Attributes of the root begin with a dot in the file and not in the module.
            tensor = theirs.get(name.removeprefix(".") if isinstance(name, str) else None)
            results.append((name, tensor is not None and self._matches(entry, tensor)))
        return all(same for _, same in results), results

    def read_tensors(self, filter_func=None, num_tensors=-1, verify_hash=None):
        """Yields the place of its module, the type, the name and the tensor of each."""
        for path in self._chosen(filter_func, num_tensors):
            tensor = self._fetch([path], self._verify if verify_hash is None else verify_hash)[path]
            entry = self._entries[path]
            yield self._model.module(entry.nth), entry.kind, shown(path), tensor

    def read_numpy_arrays(self, filter_func=None, num_tensors=-1, allow_raw_data=False, verify_hash=None):
        """The same as numpy arrays, read anew; and whether, and as what type of torch, it is raw bytes."""
        if str(self._device) != "cpu":
            raise RuntimeError('numpy has no other device than the CPU: deserialize with device="cpu"')
        for path in self._chosen(filter_func, num_tensors):
            entry, name = self._entries[path], shown(path)
            opaque = arrays.opaque_type(entry.dtype)
            if opaque and not allow_raw_data:
                raise ValueError(f"{name}: numpy lacks {opaque}; allow_raw_data=True gives its bytes")
            verify = self._verify if verify_hash is None else verify_hash
            memory, (start,) = self._load([entry], verify)
            array = arrays.numpy_array(memory, start, entry.dtype, entry.shape, entry.is_meta)
            module = self._model.module(entry.nth)
            yield module, entry.kind, name, array, opaque is not None, opaque

    def to_redis(self, redis_client, key_prefix, force=False):
        """Refused: models are not kept in Redis."""
        raise NotImplementedError("models are not kept in Redis: serve the file over HTTP or from S3")

    def close(self):
        """Ends reading. What was loaded stays."""
        self._close_file()
        self._model = self._secret = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.close()

    # How.

    def _chosen(self, filter_func, count):
        chosen = [path for path in self._entries if filter_func is None or filter_func(shown(path))]
        return chosen if count < 0 else chosen[:count]

    def _below(self, prefix, filter_func):
        """Nested dictionaries of what lies below a path; nothing if nothing does."""
        length = len(prefix)
        paths = [path for path in self._chosen(filter_func, -1) if path[:length] == prefix]
        if not paths:
            return None
        found = nest(self._fetch(paths, self._verify))
        for step in prefix:
            found = found[step]
        return found

    def _fetch(self, paths, verify):
        """Values by path, in the order of the paths; those that are not there yet are read together."""
        paths = list(paths)
        missing = [self._entries[path] for path in paths if path not in self._cache]
        if missing:
            by_place = {self._entries[path].nth: path for path in paths}
            missing.sort(key=lambda entry: entry.nth)
            memory, starts = self._load(missing, verify)
            for entry, start in zip(missing, starts):
                self._cache[by_place[entry.nth]] = self._value(memory, start, entry)
        return {path: self._cache[path] for path in paths}

    def _load(self, entries, verify):
        if self._model is None:
            raise ValueError("this deserializer is closed")
        wanted = [entry.nth for entry in entries]
        memory, starts, read = self._model.load(wanted, secret=self._secret, verify=bool(verify))
        self._read += read
        return memory, starts

    def _value(self, memory, start, entry):
        torch = arrays.torch_or_none()
        if torch is None:
            opaque = arrays.opaque_type(entry.dtype)
            if opaque:
                raise ValueError(f"numpy lacks {opaque}: install torch, or use read_numpy_arrays")
            return arrays.numpy_array(memory, start, entry.dtype, entry.shape, entry.is_meta)
        tensor = arrays.torch_tensor(memory, start, entry.dtype, entry.shape, entry.is_meta)
        floats = tensor.is_floating_point()
        target = self._dtype if floats and self._dtype is not None else None
        tensor = tensor.to(device=self._device, dtype=target)
        return torch.nn.Parameter(tensor, requires_grad=floats or tensor.is_complex())

    def _matches(self, entry, tensor):
        if self._model is None:
            raise ValueError("this deserializer is closed")
        if entry.is_meta:
            return True
        same = self._model.matches(entry.nth, arrays.raw_bytes(tensor))
        if same is None:
            raise RuntimeError("this file carries no hashes: convert it with `seatrial tensors convert`")
        return same

    def _close_file(self):
        if self._file is not None:
            self._file.close()
            self._file = None


def _device(device):
    """Where tensors go: as torch says it, or the CPU without torch."""
    torch = arrays.torch_or_none()
    if torch is None:
        if device not in (None, "cpu"):
            raise ValueError(f"without torch there is no device {device!r}")
        return "cpu"
    device = get_device() if device is None else torch.device(device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError('torch finds no GPU here: deserialize with device="cpu"')
    return device
