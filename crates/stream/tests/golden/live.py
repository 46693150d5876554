"""The real tensorizer and ours, both ways: every case of make.py is written by each and read by the other.

    python live.py PROGRAM        # PROGRAM is seatrial
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import make
import torch
from safetensors.torch import load_file, save_file
from tensorizer import DecryptionParams, EncryptionParams, TensorDeserializer

PROGRAM = sys.argv[1]


def ours(*args):
    done = subprocess.run([PROGRAM, "tensors", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"{args}: {done.stderr}"
    return done.stdout


def flat(what, prefix=()):
    """Paths and tensors of a module or a nested state dict."""
    if isinstance(what, torch.nn.Module):
        # As the package names them: attributes of the root begin with a dot.
        for path, module in what.named_modules():
            for name, value in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
                yield (f"{path}.{name}",), value
        return
    pairs = what.items() if hasattr(what, "items") else enumerate(what)
    for key, value in pairs:
        if isinstance(value, torch.Tensor):
            yield (*prefix, key), value
        else:
            yield from flat(value, (*prefix, key))


def same(path, what, encryption, readers):
    """Whether the real package reads exactly this from the file, every hash compared."""
    with TensorDeserializer(
        str(path), device="cpu", verify_hash=True, num_readers=readers, encryption=encryption
    ) as read:
        wanted = dict(flat(what))
        got = dict(flat(read.tree())) if not isinstance(what, torch.nn.Module) else {(k,): v for k, v in read.items()}
        assert {tuple(map(str, k)) for k in got} == {tuple(map(str, k)) for k in wanted}, (got.keys(), wanted.keys())
        for key, value in wanted.items():
            other = got[key]
            assert other.dtype == value.dtype and other.shape == value.shape, key
            if not value.is_meta and value.numel():
                flatten = lambda t: t.detach().contiguous().flatten().view(torch.uint8)
                assert torch.equal(flatten(other), flatten(value)), key


def main():
    place = Path(tempfile.mkdtemp())
    key, phrase = place / "key", place / "phrase"
    key.write_bytes(make.KEY)
    phrase.write_text(make.PASSPHRASE + "\n")
    for name, (build, encryption) in make.CASES.items():
        what = build()
        # A meta tensor of 2^34 bytes would be read as that many zeros.
        readable = "long" not in name
        official, plain = place / f"{name}.tensors", place / f"{name}-plain.tensors"
        make.write(what, encryption and encryption(), str(official))
        secret = []
        params = None
        if encryption:
            by_key = "key" in name
            secret = ["--key-file", key] if by_key else ["--passphrase-file", phrase]
            params = (
                DecryptionParams.from_key(make.KEY) if by_key else DecryptionParams.from_string(make.PASSPHRASE)
            )
        ours("verify", official, *secret)
        for layout in ("aligned", "legacy"):
            ours("convert", official, plain, "--layout", layout, *secret)
            ours("verify", plain)
            for readers in (1, 3) if readable else ():
                same(plain, what, None, readers)
            if encryption:
                sealed = place / f"{name}-sealed.tensors"
                ours("encrypt", plain, sealed, "--layout", layout, *secret)
                for readers in (1, 3) if readable else ():
                    same(sealed, what, params, readers)
        print(f"{name}: ok" + ("" if readable else " (not read by the package: too many zeros)"))
    weights = {k: v for k, v in make.numpy_types().items() if "complex128" not in k}
    save_file(weights, place / "in.safetensors")
    ours("convert", place / "in.safetensors", place / "mid.tensors")
    same(place / "mid.tensors", weights, None, 2)
    ours("convert", place / "mid.tensors", place / "out.safetensors")
    back = load_file(place / "out.safetensors")
    assert back.keys() == weights.keys() and all(torch.equal(back[k], weights[k]) for k in weights)
    print("safetensors: ok")


if __name__ == "__main__":
    main()
