"""Errors that a user can mend.

Entry points print the message of a `NevisStreamError` without a traceback, so every message says
what happened, where, what to do, and which choices are valid.
"""

import difflib
from collections.abc import Iterable


class NevisStreamError(Exception):
    """Base of every error whose message is meant for the user."""


class BadInput(NevisStreamError, ValueError):
    """A file, a row or a value that cannot be used; the message names it."""


class LeakError(NevisStreamError, AttributeError):
    """A learner reached for something that it may not know at this time."""


class LearnerFault(NevisStreamError):
    """A learner broke the contract of `init`, `train` or `predict`."""


class CostUnknown(NevisStreamError):
    """The FLOPs of a program cannot be counted; charge them explicitly."""


class DamagedCheckpoint(NevisStreamError):
    """A checkpoint's content does not match its checksum."""


class DamagedCache(NevisStreamError):
    """An evaluation cache's index or cells cannot be read."""


class RunLocked(NevisStreamError):
    """Another process is working in this run directory."""


class StorageFull(NevisStreamError):
    """The disk (or a quota, or a file-size limit) refused a write."""


class DataWarning(UserWarning):
    """Something in a data set looks wrong but can be used; the message says what."""


class RunWarning(UserWarning):
    """Something in a run directory was not as expected and was put right; the message says how."""


def unknown(what: str, value: object, valid: Iterable[object]) -> str:
    """Returns "unknown WHAT VALUE; did you mean …? Valid: …" for an error message."""
    names = sorted(str(name) for name in valid)
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {str(value)!r}.{hint} Valid: {', '.join(names) or '(none)'}."
