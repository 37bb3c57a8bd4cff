"""Ctrl-C ends a command with status 130 and a line, whenever it comes: while the command is still
imported (`launch.end_at_once`), while it works, and while it ends.
"""

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator

_MOMENT = 0.05  # seconds, in which a callback ends


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Ends the process if it is interrupted in this block, or after it."""
    report = sys.unraisablehook
    sys.unraisablehook = functools.partial(_raise_again, report)
    # of `launch`, which may be loaded under two names
    is_command = getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "end_at_once"
    if is_command:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if is_command:
            signal.signal(signal.SIGINT, _end)
        print("\ninterrupted: start the same command again to continue", file=sys.stderr)
        sys.exit(130)
    finally:
        if is_command:
            signal.signal(signal.SIGINT, _end)
        sys.unraisablehook = report


def _interrupt(signum, frame) -> None:
    """Raises KeyboardInterrupt; but while a module is imported only when that is done, since JAX's
    libraries abort the process where it is raised in the middle. The second one does not wait.
    """
    if not _is_imported(frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, _end)
    _interrupt_soon()


def _is_imported(frame) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _interrupt_soon() -> None:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def _raise_again(report: Callable, unraisable) -> None:
    """Raises an interrupt again that Python only prints; reports anything else.

    Python calls JAX's callback at a collection of garbage, and finalizers, at any instant, and
    ignores what they raise.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _interrupt_soon()
    else:
        report(unraisable)


def _end(signum, frame) -> None:
    """Ends the process while it ends anyway: all has been written and said."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(130)
