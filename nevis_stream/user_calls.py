"""What code from outside this project is given: arrays and lists that it cannot change."""

import dataclasses
import sysconfig
import traceback
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nevis_stream.errors import BadInput

_COPY = "It is read-only, since others use it too; change a copy:"
_REFUSED = ("read-only", "WRITEABLE flag")
"""Of NumPy's messages, when something writes into an array that is read-only, or would like to."""


def protect(array: np.ndarray) -> np.ndarray:
    """Returns a view of an array that is read-only."""
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
    """Returns the file and line of the last frame that is not of a library."""
    frame = next((each for each in frames[::-1] if not _is_library(each.filename)), frames[-1])
    return f"{Path(frame.filename).name}, line {frame.lineno},"


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES)


_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
