"""What code from outside this project is given, and what it keeps: arrays and lists of this project
that it cannot change, and a look at its attributes, which a call must leave as they were.
"""

import collections
import contextlib
import dataclasses
import functools
import pickle
import random
import sys
import sysconfig
import traceback
import types
import zlib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nevis_stream.errors import BadInput, NevisStreamError

_COPY = "It is read-only, since others use it too; change a copy:"
_REFUSED = ("read-only", "WRITEABLE flag")
"""Of NumPy's messages, when something writes into an array that is read-only, or would like to."""


def protect(array: np.ndarray) -> np.ndarray:
    """Returns a view of an array that is read-only, and where possible stays so (`setflags`)."""
    with contextlib.suppress(TypeError, ValueError, BufferError):  # dates, bfloat16
        view = np.asarray(memoryview(array).toreadonly())
        if view.dtype == array.dtype and view.shape == array.shape:
            return view
    view = array.view()
    view.flags.writeable = False
    return view


class ReadOnlyList(list):
    """A list that refuses to be changed; its pickle and its copies are ordinary lists."""

    def _refuse(self, *values: Any, **options: Any) -> NoReturn:
        raise BadInput(
            f"{_find_writer(traceback.extract_stack()[:-1])} changes a list that it was given, of"
            f" {len(self):,} ids or names. {_COPY} list(ids), sorted(ids)."
        )

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple:
        return list, (list(self),)

    def copy(self) -> list:
        """Returns an ordinary list."""
        return list(self)


FIRST_CALL = "The first call raised this. Where there is no answer, return None."
"""The note of an error that is raised as it is, so that no further call is made."""


def ends_call(error: BaseException) -> bool:
    """Returns whether an error of code from outside is to be raised, not taken for a failure."""
    notes = getattr(error, "__notes__", ())
    return isinstance(error, NevisStreamError) or FIRST_CALL in notes


class ReadOnly:
    """Base of dataclasses that user code is given: their arrays and lists are read-only."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, protect(value))
            elif type(value) is list:
                object.__setattr__(self, field.name, ReadOnlyList(value))


def explain_refused_write(error: BaseException) -> str:
    """Returns what is wrong with code that wrote into a read-only array, for the end of a message;
    empty if the error is another one.
    """
    if not isinstance(error, ValueError) or not any(text in str(error) for text in _REFUSED):
        return ""
    place = _find_writer(traceback.extract_tb(error.__traceback__))
    return f"{place} would write into an array that it was given. {_COPY} numpy.array(images[0])."


def _find_writer(frames: traceback.StackSummary) -> str:
    """Returns the file and line of the last frame of user code, else of the last of all."""
    users = [each for each in frames if not _is_library(each.filename)]
    frame = (users or frames)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno},"


def read_attributes(owner: Any) -> dict[str, Any]:
    """Returns what the attributes of an object contain, its own and those of its class, by name;
    two such results are equal where no attribute has changed.

    Arrays, numbers, texts, random generators and containers of them count, as do objects of
    dataclasses, of the user's own classes and of scikit-learn's. What can be called (a function, a
    compiled program, a network), a module, `cached_property` and None do not.
    """
    return {
        name: content
        for name, value in _list_attributes(owner).items()
        if (content := _read(value, {id(owner)})) is not None
    }


def find_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Returns the name of an attribute that has changed between two `read_attributes`, or None."""
    names = {**before, **after}
    return next((name for name in names if before.get(name) != after.get(name)), None)


def _list_attributes(owner: Any) -> dict[str, Any]:
    of_class: dict[str, Any] = {}
    for each in reversed(type(owner).__mro__):
        of_class |= vars(each)
    found = {
        name: getattr(owner, name, None)
        if isinstance(value, types.MemberDescriptorType)  # of __slots__
        else value
        for name, value in of_class.items()
        if not name.startswith("__")
    } | getattr(owner, "__dict__", {})
    cached = functools.cached_property
    return {
        name: value
        for name, value in found.items()
        if not isinstance(of_class.get(name), cached | property)
    }


def _read(value: Any, around: Set[int]) -> Any:
    """Returns what an attribute contains; None if it does not count.

    Args:
      value: of the attribute.
      around: ids of the objects that it is in.
    """
    if value is None or callable(value) or isinstance(value, types.ModuleType):
        return None
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return value if value == value else "NaN"  # which differs from itself
    # of other libraries: JAX, PyTorch; pandas, polars
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__") or hasattr(value, "to_numpy"):
        return _Array(value)
    if isinstance(value, _GENERATORS):
        return pickle.dumps(value)
    if id(value) in around:
        return "itself"
    around = around | {id(value)}

    def read_all(items: Mapping[Any, Any]) -> dict[Any, Any]:
        contents = {key: _read(each, around) for key, each in items.items()}
        return {key: content for key, content in contents.items() if content is not None}

    if isinstance(value, dict):
        return read_all(value)
    if isinstance(value, list | tuple | collections.deque):
        return read_all(dict(enumerate(value)))
    if isinstance(value, Set):
        return {each for each in value if not callable(each)}
    if isinstance(value, bytearray):
        return bytes(value)
    counts = dataclasses.is_dataclass(value) or hasattr(value, "get_params") or _is_users(value)
    return read_all(_list_attributes(value)) if counts else None


def _is_users(value: Any) -> bool:
    """Whether the class of an object is neither of a library nor of this project."""
    module = type(value).__module__
    if module == "__main__":  # in a notebook it has no file
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return bool(file) and not _is_library(file)


def _is_library(file: str) -> bool:
    """Whether a file is of a library or of this project."""
    return file.startswith(_LIBRARIES) or file.endswith(".pyx")  # in a wheel that was compiled


_LIBRARIES = (
    *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
)
_GENERATORS = (
    *(np.random.Generator, np.random.BitGenerator, np.random.RandomState),
    *(random.Random, np.random.SeedSequence),
)


class _Array:
    """The content of an array. One that is read-only is read only if another one is in its place.

    Attributes:
      array: the array; None once it was read.
    """

    def __init__(self, array: Any):
        jax = sys.modules.get("jax")
        fixed = isinstance(array, np.ndarray) and not array.flags.writeable
        fixed = fixed or (jax is not None and isinstance(array, jax.Array))
        self.array = array if fixed else None
        self._content = None if fixed else _summarise(array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Array):
            return False
        if self.array is not None and self.array is other.array:
            return True
        first, second = (
            _summarise(each.array) if each.array is not None else each._content
            for each in (self, other)
        )
        return first == second


def _summarise(array: Any) -> Any:
    """Returns shape, type and a checksum of an array; its id if it cannot be read: a key of JAX, an
    array that was deleted.
    """
    try:
        data = np.asarray(array)
        if data.dtype.hasobject:
            return repr(data.tolist())
        flat = np.ascontiguousarray(data).reshape(-1)
        return data.shape, data.dtype.str, zlib.crc32(flat.view(np.uint8))
    except Exception:
        return id(array)
