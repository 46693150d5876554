"""Names of tensors: plain strings, and paths through nested dictionaries and lists.

A path is a tuple of strings and numbers here; a plain name is one of a single string, and is shown to
people as that string.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType


class TensorType(IntEnum):
    """What a tensor is to its module."""

    PARAM = 0
    BUFFER = 1
    STATE_DICT = 2


def shown(path):
    """The name as filters and callers see it: a string where it is a plain one."""
    return path[0] if len(path) == 1 and isinstance(path[0], str) else path


def as_path(name):
    """The path of a name that a caller gave."""
    path = (name,) if isinstance(name, str) else tuple(name)
    if not path or not all(type(step) in (str, int) for step in path):
        raise TypeError(f"a name is a string or a tuple of strings and numbers, not {name!r}")
    return path


def flatten(tree, is_leaf, path=()):
    """Paths and leaves of nested dictionaries and lists."""
    if is_leaf(tree):
        yield path, tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            if not isinstance(key, str):
                raise TypeError(f"keys of a state dict are strings; {key!r} in {list(path)} is none")
            yield from flatten(value, is_leaf, (*path, key))
    elif isinstance(tree, Sequence) and not isinstance(tree, (str, bytes)):
        for place, value in enumerate(tree):
            yield from flatten(value, is_leaf, (*path, place))
    else:
        kind = type(tree).__name__
        raise TypeError(f"{list(path)}: a {kind} is no tensor, dictionary or list")


def nest(leaves):
    """The dictionaries that these paths go through; lists are dictionaries with numbers as keys."""
    root = {}
    for path, leaf in leaves.items():
        branch = root
        for step in path[:-1]:
            branch = branch.setdefault(step, {})
        branch[path[-1]] = leaf
    return root


def as_mapping(branch):
    """A branch that can be looked at and not changed."""
    if not isinstance(branch, dict):
        return branch
    return MappingProxyType({key: as_mapping(value) for key, value in branch.items()})


def as_tree(branch):
    """A branch with lists where lists were; what a filter left out of one closes up."""
    if not isinstance(branch, dict):
        return branch
    if branch and all(isinstance(key, int) for key in branch):
        return [as_tree(branch[key]) for key in sorted(branch)]
    return {key: as_tree(value) for key, value in branch.items()}
