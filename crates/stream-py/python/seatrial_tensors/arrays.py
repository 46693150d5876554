"""Tensors of torch and arrays of numpy over memory that is already there, and back to bytes.

torch is looked for when it is first needed and never imported for itself: without it numpy serves, for
the types that numpy has. Types are written as files say them: numpy's own string, or for a type that only
torch has, bytes of its size, a zero and torch's name (``<V2\\0torch.bfloat16``).
"""

import functools

import numpy

_OPAQUE = "\0"

# Types of torch that numpy has under the same name.
_NUMPY = frozenset(
    "float16 float32 float64 complex64 complex128 bool "
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)


@functools.cache
def torch_or_none():
    """torch, if it is installed."""
    try:
        import torch
    except ModuleNotFoundError as missing:
        # Only that torch is not there; a torch that is broken says so itself.
        if missing.name != "torch":
            raise
        return None
    return torch


def is_tensor(value):
    """Whether this is a tensor of torch or an array of numpy."""
    torch = torch_or_none()
    return isinstance(value, numpy.ndarray) or (torch is not None and isinstance(value, torch.Tensor))


def file_type(value):
    """The type of a tensor's elements as a file says it."""
    if isinstance(value, numpy.ndarray):
        if value.dtype.hasobject or value.dtype.kind not in "biufc":
            raise ValueError(f"arrays of {value.dtype} cannot be written")
        return value.dtype.str
    name = str(value.dtype).removeprefix("torch.")
    if name in _NUMPY:
        return numpy.dtype(name).str
    if value.is_quantized:
        raise ValueError(f"tensors of {value.dtype} cannot be written: quantise while loading instead")
    size = value.element_size()
    return f"{'|' if size == 1 else '<'}V{size}{_OPAQUE}torch.{name}"


def raw_bytes(value):
    """A tensor's elements as contiguous bytes: a view where it has them so, else a copy."""
    if isinstance(value, numpy.ndarray):
        return numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
    torch = torch_or_none()
    if value.layout is not torch.strided:
        raise ValueError(f"tensors with layout {value.layout} cannot be written: make them dense")
    plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    # A tensor without dimensions cannot be seen as bytes, one with a single one can.
    return plain.reshape(-1).view(torch.uint8).numpy()


def torch_tensor(memory, start, file_dtype, shape, is_meta):
    """A tensor over these bytes of the memory; zeros for one without data."""
    torch = torch_or_none()
    dtype = _torch_type(file_dtype)
    count = _count(shape)
    if is_meta or count == 0:
        return torch.zeros(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=start).reshape(shape)


def numpy_array(memory, start, file_dtype, shape, is_meta):
    """An array over these bytes of the memory; raw bytes for a type that numpy lacks."""
    dtype = numpy.dtype(file_dtype.split(_OPAQUE)[0])
    count = _count(shape)
    if is_meta or count == 0:
        return numpy.zeros(shape, dtype=dtype)
    return numpy.frombuffer(memory, dtype=dtype, count=count, offset=start).reshape(shape)


def opaque_type(file_dtype):
    """torch's name of a type that numpy lacks, else nothing."""
    _, _, name = file_dtype.partition(_OPAQUE)
    return name or None


def _torch_type(file_dtype):
    torch = torch_or_none()
    name = opaque_type(file_dtype)
    name = name.removeprefix("torch.") if name else numpy.dtype(file_dtype).name
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or numpy.dtype(file_dtype.split(_OPAQUE)[0]).str[0] == ">":
        raise ValueError(f"torch {torch.__version__} has no type for {file_dtype!r}")
    return dtype


def _count(shape):
    count = 1
    for length in shape:
        count *= length
    return count
