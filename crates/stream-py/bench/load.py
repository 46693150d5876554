"""Loads one model with the real tensorizer and with ours, in turn, and prints what each took.

    cargo xtask wheel --bench

The model has tensors as a layer of Llama has them, in bfloat16, about 1 GB (or argument 1, in GB), and is
read from a file that the page cache has. Each load is a process of its own, whose imports are not counted:
memory that one load has freed would otherwise be there for the next. Every file is written by the package
that reads it, and each reads the other's too. Wall times on a shared machine vary; the ratios are what to
compare.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import seatrial_tensors
import tensorizer
import torch

ROUNDS = 5
PACKAGES = {"tensorizer": tensorizer, "seatrial_tensors": seatrial_tensors}
LAYER = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (4096,), (11008, 4096), (4096, 11008), (4096,)]

ONE = """
import importlib, resource, sys, time
import torch  # ours would else do so while the clock runs
package = importlib.import_module(sys.argv[1])
before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
tensors = package.TensorDeserializer(sys.argv[2], device="cpu", verify_hash=sys.argv[3] == "verify")
wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
print(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, len(tensors))
"""


def main():
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    layers = max(1, round(gigabytes * 1e9 / sum(2 * torch.Size(shape).numel() for shape in LAYER)))
    model = {
        f"model.layers.{layer}.{nth}.weight": torch.randn(shape, dtype=torch.bfloat16)
        for layer in range(layers)
        for nth, shape in enumerate(LAYER)
    }
    size = sum(tensor.nbytes for tensor in model.values()) / 1e9
    with tempfile.TemporaryDirectory() as place:
        paths = {name: str(Path(place) / name) for name in PACKAGES}
        for name, package in PACKAGES.items():
            serializer = package.TensorSerializer(paths[name])
            serializer.write_state_dict(model)
            serializer.close()
        count = len(model)
        del model
        cases = [
            (reader, writer, check)
            for check in ("", "verify")
            for writer in PACKAGES
            for reader in PACKAGES
        ]
        took = {case: [] for case in cases}
        for _ in range(ROUNDS):
            for reader, writer, check in cases:
                words = [sys.executable, "-c", ONE, reader, paths[writer], check]
                said = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
                assert int(said[2]) == count, said
                took[reader, writer, check].append((float(said[0]), float(said[1])))
    print(f"{size:.2f} GB in {count} tensors, warm file, {ROUNDS} rounds in turn")
    print("reader            file of           check    best s  median s  best GB/s  CPU s/GB")
    for (reader, writer, check), rows in took.items():
        wall, cpu = zip(*rows)
        best, median = min(wall), statistics.median(wall)
        figures = f"{best:6.3f}  {median:8.3f}  {size / best:9.2f}  {min(cpu) / size:8.2f}"
        print(f"{reader:16}  {writer:16}  {check or '-':7}  {figures}")


if __name__ == "__main__":
    main()
