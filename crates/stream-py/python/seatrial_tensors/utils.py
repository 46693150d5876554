"""The helpers of tensorizer.utils: how much memory is in use, and modules without their weights."""

import contextlib
from typing import NamedTuple, Optional

from .arrays import torch_or_none

__all__ = [
    "convert_bytes",
    "get_device",
    "GlobalGPUMemoryUsage",
    "TorchGPUMemoryUsage",
    "CPUMemoryUsage",
    "MemoryUsage",
    "get_mem_usage",
    "get_gpu_name",
    "no_init_or_tensor",
]


def convert_bytes(num, decimal=True):
    """A number of bytes for people: ``123.4 MB``, or ``117.7 MiB`` where it is not to be decimal."""
    step, infix = (1000, "") if decimal else (1024, "i")
    unit = "bytes"
    for letter in "KMGTP":
        if num < step:
            break
        num /= step
        unit = f"{letter}{infix}B"
    return f"{num:.1f} {unit}"


def get_device():
    """The GPU where there is one, else the CPU."""
    torch = torch_or_none()
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def get_gpu_name():
    """What the GPU calls itself, or ``N/A``."""
    return torch_or_none().cuda.get_device_name() if _has_gpu() else "N/A"


class GlobalGPUMemoryUsage(NamedTuple):
    """Memory of one GPU, of all processes, in bytes."""

    total: int
    free: int
    used: int

    @classmethod
    def now(cls, device=None):
        """As it is; nothing where there is no GPU."""
        if not _has_gpu():
            return None
        free, total = torch_or_none().cuda.mem_get_info(device)
        return cls(total, free, total - free)

    def __str__(self):
        used, free, total = _mebibytes(self.used, self.free, self.total)
        return f"GPU: (U: {used} F: {free} T: {total})"


class TorchGPUMemoryUsage(NamedTuple):
    """Memory of one GPU that torch has in this process, in bytes."""

    reserved: int
    reserved_max: int
    used: int
    used_max: int

    @classmethod
    def now(cls, device=None):
        """As it is; nothing where there is no GPU."""
        if not _has_gpu():
            return None
        said = torch_or_none().cuda.memory_stats(device)
        kinds = [("reserved", "current"), ("reserved", "peak"), ("allocated", "current"), ("allocated", "peak")]
        return cls(*(said.get(f"{what}_bytes.all.{when}", 0) for what, when in kinds))

    def __str__(self):
        reserved, reserved_max, used, used_max = _mebibytes(*self)
        return f"TORCH: (R: {reserved}/{reserved_max}, A: {used}/{used_max})"


class CPUMemoryUsage(NamedTuple):
    """The most memory that this process and its children have had, and what is available, in bytes."""

    maxrss: int
    free: int

    @classmethod
    def now(cls):
        """As it is, by the kernel."""
        import resource

        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        most = sum(resource.getrusage(one).ru_maxrss for one in who) << 10
        with open("/proc/meminfo", encoding="ascii") as lines:
            rows = dict(line.split(":", 1) for line in lines)
        return cls(most, int(rows["MemAvailable"].split()[0]) << 10)

    def __str__(self):
        most, free = _mebibytes(self.maxrss, self.free)
        return f"CPU: (maxrss: {most} F: {free})"


class MemoryUsage(NamedTuple):
    """All three; of a machine without GPU only the first."""

    cpu: CPUMemoryUsage
    gpu: Optional[GlobalGPUMemoryUsage]
    torch: Optional[TorchGPUMemoryUsage]

    @classmethod
    def now(cls, device=None):
        """As it is."""
        return cls(CPUMemoryUsage.now(), GlobalGPUMemoryUsage.now(device), TorchGPUMemoryUsage.now(device))

    def __str__(self):
        return " ".join(str(part) for part in self if part is not None)


def get_mem_usage():
    """``MemoryUsage.now()`` as a line for a log."""
    return str(MemoryUsage.now())


def no_init_or_tensor(loading_code=None):
    """Makes modules without memory for their weights, which a deserializer then brings.

    A context manager, or called with a function that makes a module and whose result is returned.
    Within it ``torch.empty`` makes tensors on the meta device, so that initialisation has nothing to
    write. Other threads are not affected.
    """
    if loading_code is None:
        return _without_memory()
    if not callable(loading_code):
        kind = type(loading_code).__name__
        raise TypeError(f"no_init_or_tensor takes a function or nothing, not a {kind}")
    with _without_memory():
        return loading_code()


@contextlib.contextmanager
def _without_memory():
    torch = torch_or_none()

    class Meta(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if function is torch.empty:
                kwargs["device"] = "meta"
            return function(*args, **kwargs)

    with Meta():
        yield


def _has_gpu():
    torch = torch_or_none()
    return torch is not None and torch.cuda.is_available()


def _mebibytes(*amounts):
    return [f"{amount >> 20:,}MiB" for amount in amounts]
