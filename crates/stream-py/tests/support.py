"""What the tests share: modules and state dicts, the two packages, and where files go."""

import tempfile
import unittest
from pathlib import Path

import seatrial_tensors as ours
import tensorizer as theirs
import torch

KEY = bytes(range(32))
PHRASE = "correct horse battery staple"

# Of each kind of secret, what a package makes of it to write and to read. Light, so that tests are fast.
SECRETS = {
    "plain": (lambda package: None, lambda package: None),
    "key": (
        lambda package: package.EncryptionParams(KEY),
        lambda package: package.DecryptionParams.from_key(KEY),
    ),
    "passphrase": (
        lambda package: package.EncryptionParams.from_string(PHRASE, opslimit=1, memlimit=8 << 10),
        lambda package: package.DecryptionParams.from_string(PHRASE),
    ),
}

# Who writes and who reads.
WAYS = {"ours to theirs": (ours, theirs), "theirs to ours": (theirs, ours), "ours to ours": (ours, ours)}


class Case(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.path = str(self.place / "model.tensors")

    def assert_same(self, one, other):
        """Whether two tensors are of one type and shape and have the same bytes."""
        one, other = one.detach(), other.detach()
        self.assertEqual((one.dtype, tuple(one.shape)), (other.dtype, tuple(other.shape)))
        raw = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
        self.assertTrue(torch.equal(*raw))


def write(package, path, what, secret="plain"):
    """Writes a module or a state dict."""
    serializer = package.TensorSerializer(path, encryption=SECRETS[secret][0](package))
    if isinstance(what, torch.nn.Module):
        serializer.write_module(what)
    else:
        serializer.write_state_dict(what)
    serializer.close()


def read(package, path, secret="plain", **options):
    """Opens a model, every hash compared."""
    options = {"device": "cpu", "verify_hash": True, **options}
    return package.TensorDeserializer(path, encryption=SECRETS[secret][1](package), **options)


def module(dtype=torch.bfloat16):
    """Parameters, buffers that last and that do not, integers, and more bytes than one piece has."""
    torch.manual_seed(7)
    made = torch.nn.Sequential(
        torch.nn.Embedding(3000, 512), torch.nn.Linear(512, 300), torch.nn.BatchNorm1d(300)
    )
    made[1].register_buffer("steps", torch.arange(10))
    made[1].register_buffer("cache", torch.rand(4, 4, dtype=torch.float64), persistent=False)
    return made.to(dtype).eval()


def types():
    """A tensor of every type that a file can hold and torch can make."""
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool"
    names += " complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e8m0fnu"
    made = {}
    for name in names.split():
        dtype = getattr(torch, name)
        size = torch.empty((), dtype=dtype).element_size()
        raw = torch.arange(6 * size, dtype=torch.uint8)
        raw = raw % 2 if dtype == torch.bool else raw
        made[name] = raw.view(dtype).reshape(2, 3)
    made["scalar"] = torch.tensor(3.5)
    made["empty"] = torch.empty(0, 4)
    return made


def nested():
    """Dictionaries in lists in dictionaries."""
    return {
        "layers": [{"w": torch.rand(3, 2)}, {"w": torch.rand(3, 2), "ä": torch.tensor([1, 2])}],
        "head": torch.rand(5).to(torch.bfloat16),
    }
