"""Makes the golden files beside it with the real tensorizer package, one for each case.

    pip install tensorizer==2.12.1 && python make.py

Byte i of a tensor's data is (31 * i + length of its name) % 256, or its last bit for booleans, so that
a test knows what must be in a file. Encrypted files are sealed anew by every run.
"""

import gzip
import io
import sys
from pathlib import Path

import torch
from tensorizer import DecryptionParams, EncryptionParams, TensorDeserializer, TensorSerializer
from tensorizer import serialization

KEY = bytes(range(32))
PASSPHRASE = "correct horse battery staple"
HERE = Path(__file__).parent


def tensor(name, dtype, *shape):
    """A tensor of bytes that its name's length decides."""
    size = torch.empty((), dtype=dtype).element_size()
    count = size
    for dim in shape:
        count *= dim
    data = bytearray((31 * i + len(name)) % 256 for i in range(count))
    if dtype == torch.bool:
        data = bytearray(byte & 1 for byte in data)
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).clone().view(dtype).reshape(shape)


def meta(dtype, *shape):
    return torch.empty(shape, dtype=dtype, device="meta")


def state(*rows):
    return {name: tensor(name, dtype, *shape) for name, dtype, *shape in rows}


class Module(torch.nn.Module):
    """A module in a module, buffers, and an attribute of the root, whose name begins with a dot."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.register_parameter(
            "weight", torch.nn.Parameter(tensor("inner.weight", torch.float32, 3, 5))
        )
        self.inner.register_buffer("count", tensor("inner.count", torch.int64))
        self.register_parameter("bias", torch.nn.Parameter(tensor(".bias", torch.float16, 7)))


def numpy_types():
    types = "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"
    types += " complex64 complex128"
    rows = [(name, getattr(torch, name), 3, 2) for name in types.split()]
    return state(*rows, ("scalar", torch.float32), ("empty", torch.float32, 0, 4))


def torch_types():
    types = "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
    return state(*((name, getattr(torch, name), 5) for name in (types + " complex32").split()))


def nested():
    return {
        "layers": [
            {"w": tensor("layers.0.w", torch.float32, 2, 3)},
            {"w": tensor("layers.1.w", torch.float32, 2, 3), "ä\"": tensor("layers.1.ä\"", torch.int8, 4)},
        ],
        "plain.name": tensor("plain.name", torch.bfloat16, 9),
    }


def sealed():
    return state(("long", torch.float32, 900), ("short", torch.bfloat16, 3), ("one", torch.uint8, 1024))


def with_meta():
    # None without dimensions: the package hashes memory for those that it never sets nor writes.
    return {**sealed(), "marker": meta(torch.float32, 4, 4), "row": meta(torch.float16, 9)}


LIGHT = dict(
    opslimit=EncryptionParams.OpsLimit.MIN if hasattr(EncryptionParams.OpsLimit, "MIN") else 1,
    memlimit=EncryptionParams.MemLimit.MIN if hasattr(EncryptionParams.MemLimit, "MIN") else 8192,
)

CASES = {
    "v1-module": (Module, None),
    "v1-types": (numpy_types, None),
    "v2-types": (torch_types, None),
    "v2-nested": (nested, None),
    "v3-key": (sealed, lambda: EncryptionParams(KEY)),
    "v3-passphrase": (sealed, lambda: EncryptionParams.from_string(PASSPHRASE, **LIGHT)),
    "v4-meta": (with_meta, None),
    "v4-meta-key": (with_meta, lambda: EncryptionParams(KEY)),
    "v5-long": (lambda: {**sealed(), "long_meta": meta(torch.int8, 1 << 33, 2)}, None),
    "v5-long-key": (
        lambda: {**sealed(), "long_meta": meta(torch.int8, 1 << 33, 2)},
        lambda: EncryptionParams(KEY),
    ),
}


def write(what, encryption, file, piece=1024):
    serializer = TensorSerializer(file, encryption=encryption)
    # Small pieces, so that small files have several.
    serializer._crypt_chunk_size = piece
    if isinstance(what, torch.nn.Module):
        serializer.write_module(what)
    else:
        serializer.write_state_dict(what)
    serializer.close()


def main():
    for name, (make, encryption) in CASES.items():
        path = Path(sys.argv[1] if len(sys.argv) > 1 else HERE) / f"{name}.tensors"
        write(make(), encryption and encryption(), str(path))
        data = path.read_bytes()
        path.unlink()
        version = int.from_bytes(data[5:9], "little")
        assert version == int(name[1]), f"{name} has version {version}"
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as out:
            out.write(data)
        path.with_suffix(".tensors.gz").write_bytes(packed.getvalue())


if __name__ == "__main__":
    main()
