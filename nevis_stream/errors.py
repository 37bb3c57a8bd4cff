"""Errors that a user can correct, and words of their messages.

Entry points print the message of a `NevisStreamError` without a traceback, so every message says
what happened, where, what to do, and which choices are valid.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar


class NevisStreamError(Exception):
    """Base of every error whose message is meant for the user."""


class BadInput(NevisStreamError, ValueError):
    """A file, a row or a value that cannot be used; the message names it."""


class AnsweringFailed(BadInput):
    """A function that answers for a model is out of order; the last error that it raised is the
    cause.

    Attributes:
      answers: what it had answered, by sample; of several models, by model.
    """

    def __init__(self, message: str, answers: Mapping[Any, Any] | None = None):
        super().__init__(message)
        self.answers = dict(answers or {})


class LeakError(NevisStreamError, AttributeError):
    """A learner tried to access something that it must not know at this time."""


class LearnerFault(NevisStreamError):
    """A learner broke the contract of `init`, `train` or `predict`."""


class CostUnknown(NevisStreamError):
    """The FLOPs of a program cannot be counted; they must be charged explicitly."""


class DamagedCheckpoint(NevisStreamError):
    """A checkpoint's content does not match its checksum."""


class DamagedCache(NevisStreamError):
    """An evaluation cache's index or cells cannot be read."""


class RunLocked(NevisStreamError):
    """Another process is working in this run directory."""


class StorageFull(NevisStreamError):
    """The disk (or a quota, or a file-size limit) refused a write."""


class DataWarning(UserWarning):
    """A data set can be used, but something in it looks wrong; the message says what."""


class RunWarning(UserWarning):
    """Something in a run directory was wrong and was corrected; the message says how."""


T = TypeVar("T")

MOST_NAMES = 150  # a message lists all choices up to this number: the data sets of NEVIS'22
CLOSEST = 10  # of more choices, such as sample ids, it lists these


def unknown(noun: str, value: object, valid: Iterable[object]) -> str:
    """Returns "unknown NOUN VALUE. Did you mean …? Valid: …" for an error message."""
    names = sorted(str(name) for name in valid)
    near = difflib.get_close_matches(str(value), names, n=CLOSEST)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    shown = ", ".join(names) or "(none)"
    if len(names) > MOST_NAMES:
        closest = near or names[:CLOSEST]
        shown = f"{', '.join(closest)}, … {len(names) - len(closest):,} more"
    return f"unknown {noun} {str(value)!r}.{hint} Valid: {shown}."


def look_up(table: Mapping[str, T], noun: str, name: str) -> T:
    """Returns an entry of a table; BadInput names the valid ones, `noun` says what they are."""
    if name not in table:
        raise BadInput(unknown(noun, name, table))
    return table[name]


def describe_installation(extra: str) -> str:
    """Returns how what an extra of this project names is installed; no index has the project."""
    return f"pip install -c constraints.txt -e '.[{extra}]' in the checkout of this project"


def plural(n: int, noun: str) -> str:
    """Returns a number and its noun.

    >>> plural(1, "task"), plural(5, "task")
    ('1 task', '5 tasks')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
