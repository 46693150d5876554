"""Loads one model with one package and prints what it took: a process of `cargo xtask bench stream`.

    peer.py PACKAGE PLACE [cold] [verify] [sealed] [use]

PACKAGE is seatrial_tensors, tensorizer, safetensors (mapped, and every page touched), safetensors-copied,
fastsafetensors or runai; or libsodium, which only opens as many bytes as the file PLACE has. What a
package cannot do by itself (safetensors over HTTP) is done as its users do it: the file is fetched first.

Printed as JSON: bytes, seconds, seconds of all cores, MiB of peak memory beyond the tensors and what the
imports took, and seconds since the process began. With `use`, the time goes on until every page of every
tensor has been read once.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
import urllib.request

KEY = bytes([7]) * 32
# What tensorizer and libsodium seal at once.
PIECE = 2 << 20
PAGE = 4096


def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # tensorizer reads URLs by a child, curl, which works for it.
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in (usage, children))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def since_start():
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def touch(tensors):
    for tensor in tensors:
        tensor.reshape(-1)[:: PAGE // tensor.element_size()].float().sum()


def streams(package, place, how):
    module = __import__(package)
    secret = module.DecryptionParams.from_key(KEY) if "sealed" in how else None

    def load():
        # Four readers are tensorizer's best over HTTP; ours finds out by itself.
        many = 4 if "://" in place else None
        source = module.stream_io.open_stream(place) if "://" in place else place
        deserializer = module.TensorDeserializer(
            source, device="cpu", verify_hash="verify" in how, encryption=secret, num_readers=many
        )
        return deserializer, list(deserializer.values())

    return load


def safetensors(place, copied):
    from safetensors.torch import load_file

    def load():
        with tempfile.TemporaryDirectory(dir=os.environ.get("PEER_SCRATCH")) as scratch:
            path = place
            if "://" in place:
                path = os.path.join(scratch, "model.safetensors")
                with urllib.request.urlopen(place) as answer, open(path, "wb") as file:
                    shutil.copyfileobj(answer, file, 1 << 20)
            tensors = list(load_file(path).values())
        if copied:
            return None, [tensor.clone() for tensor in tensors]
        touch(tensors)
        return None, tensors

    return load


def fastsafetensors(place):
    import torch
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def load():
        loader = SafeTensorsFileLoader(SingleGroup(), torch.device("cpu"), nogds=True)
        loader.add_filenames({0: [place]})
        buffer = loader.copy_files_to_device()
        return (loader, buffer), [buffer.get_tensor(name) for name in loader.get_keys()]

    return load


def runai(place):
    from runai_model_streamer import SafetensorsStreamer

    def load():
        # It is left open: its memory is what the tensors lie in.
        streamer = SafetensorsStreamer().__enter__()
        streamer.stream_file(place)
        return streamer, [tensor for _, tensor in streamer.get_tensors()]

    return load


def libsodium(size):
    import ctypes

    import libnacl

    sodium = libnacl.nacl
    nonce, plain = bytes(24), bytes(PIECE)
    sealed = ctypes.create_string_buffer(PIECE + 16)
    sodium.crypto_secretbox_easy(sealed, plain, ctypes.c_ulonglong(PIECE), nonce, KEY)
    cores = len(os.sched_getaffinity(0))

    def opens():
        into = ctypes.create_string_buffer(PIECE)
        for _ in range(size // PIECE // cores):
            assert sodium.crypto_secretbox_open_easy(into, sealed, ctypes.c_ulonglong(PIECE + 16), nonce, KEY) == 0

    def load():
        threads = [threading.Thread(target=opens) for _ in range(cores)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return None, []

    return load


def main():
    package, place, how = sys.argv[1], sys.argv[2], sys.argv[3:]
    if package == "libsodium":
        size = os.path.getsize(place)
        load = libsodium(size)
    else:
        import torch  # some would else do so while the clock runs

        size = None
        loads = {
            "safetensors": lambda: safetensors(place, False),
            "safetensors-copied": lambda: safetensors(place, True),
            "fastsafetensors": lambda: fastsafetensors(place),
            "runai": lambda: runai(place),
        }
        load = loads.get(package, lambda: streams(package, place, how))()
        torch.zeros(1)
    if "cold" in how:
        with open(place, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    base, cpu, start = peak(), used(), time.perf_counter()
    owner, tensors = load()
    if "use" in how:
        touch(tensors)
    seconds, cpu, ready = time.perf_counter() - start, used() - cpu, since_start()
    held = sum(tensor.nbytes for tensor in tensors)
    figures = {"bytes": size or held, "seconds": seconds, "cpu": cpu, "ready": ready}
    figures["beyond"] = peak() - base - held / (1 << 20)
    print(json.dumps(figures))
    sys.stdout.flush()
    # What a package does when it ends is not measured, and not waited for.
    del owner
    os._exit(0)


if __name__ == "__main__":
    main()
