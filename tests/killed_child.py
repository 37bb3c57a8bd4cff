"""Runs a function in a forked process that kills itself at its n-th change of a directory."""

import os
import signal
import sys
import traceback
from collections.abc import Callable

_CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}


def survives(action: Callable[[], object], fatal: int) -> bool:
    """Whether `action` ends before its change number `fatal` (from 1), at whose start its
    process is sent SIGKILL.

    Python's audit events report the changes, so nothing of what is tested is replaced.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            arm(fatal)
            action()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the action failed"
    return os.WIFEXITED(status)


def arm(fatal: int) -> None:
    """Sends this process SIGKILL at the start of its change number `fatal`, from here on."""
    count = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal count
        if event in _CHANGES:
            count += 1
            if count == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
