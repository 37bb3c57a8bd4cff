"""A program that ends when the process that has started it does, in whatever way: a supervisor
starts it, and ends it when the pipe is closed that this process holds.

The supervisor runs this file alone, without the package, so it needs the standard library only.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PATIENCE = 10.0  # seconds from TERM to KILL
_PAUSE = 0.1  # seconds between looks at whether it has ended
_AT_PARENTS_END = 1  # PR_SET_PDEATHSIG of Linux


def run_owned(command: Sequence[str], done: Path, content: str) -> int:
    """Runs a program and returns its status; when this process ends, by whatever signal, the
    program and all that it has started are ended. In the foreground of a terminal only the program
    is: there it stays in the group of processes that Ctrl-C reaches.

    Args:
      command: its words.
      done: a file that is written if the program ends with status 0, also after this process.
      content: of this file.

    Raises:
      OSError: it cannot be started.
    """
    if shutil.which(command[0]) is None:  # the supervisor could only print it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    is_shown = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    held, end = os.pipe()
    with open(held, "rb"), open(end, "wb") as ours:
        words = [sys.executable, "-I", "-S", __file__, str(held), str(done), content]
        group = None if is_shown else 0
        supervisor = subprocess.Popen([*words, *command], pass_fds=[held], process_group=group)
        try:
            return supervisor.wait()
        finally:
            ours.close()
            supervisor.wait()


def wait_for_ending(folder: Path) -> None:
    """Waits until programs have ended whose owner has, and whose files `done` are in a folder."""
    with contextlib.suppress(OSError), _lock(folder, fcntl.LOCK_EX):
        pass


@contextlib.contextmanager
def _lock(folder: Path, mode: int) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a drive without locks
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


def end_with_parent() -> None:
    """Has this process get SIGTERM when the one that has started it ends, where the system does so
    (Linux). For a child that its parent ends itself, but cannot where it is killed.
    """
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):
        prctl(_AT_PARENTS_END, signal.SIGTERM)


def _supervise(held: str, done: str, content: str, *command: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # the program decides, which gets them too
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # unlike SIG_IGN, it is not passed on
    is_leader = os.getpgrp() == os.getpid()
    try:
        program = subprocess.Popen(command, process_group=0 if is_leader else None)
    except OSError as error:
        sys.exit(f"{command[0]}: cannot be started ({error.strerror}).")
    # nothing is written into the pipe: it can be read when nobody holds its other end
    while program.poll() is None and not select.select([int(held)], [], [], _PAUSE)[0]:
        pass
    with _lock(Path(done).parent, fcntl.LOCK_SH):
        if program.poll() is None:
            _end(program, is_leader)
        if program.returncode == 0:
            (part := Path(f"{done}.part")).write_text(content)
            part.replace(done)
    sys.exit(program.returncode % 256)


def _end(program: subprocess.Popen, is_leader: bool) -> None:
    """Ends a program, with its group if it leads one."""
    send = functools.partial(os.killpg, program.pid) if is_leader else program.send_signal
    with contextlib.suppress(ProcessLookupError):  # all have ended
        for number in (signal.SIGTERM, signal.SIGKILL):
            send(number)
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until and (program.poll() is None or is_leader):
                send(0)  # asks whether somebody is there
                time.sleep(_PAUSE)
    program.wait()


if __name__ == "__main__":
    _supervise(*sys.argv[1:])
