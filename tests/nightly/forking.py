"""Commands in processes forked from a warm one, whose changes of files can be made to fail.

A process with the environment of `preload` has the C library of file_faults.c before all others.
It imports the project once; a command that is forked from it begins in a few milliseconds.
"""

import atexit
import contextlib
import ctypes
import errno
import importlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("file_faults.c")
OFF, RECORD, KILL, HALF, FAIL = range(5)
"""What the library does; see file_faults.c."""
TEMPORARY = "tmp"
"""Folder of a command's temporary files in its working directory."""


@dataclass(frozen=True)
class Fault:
    """What happens at a change.

    Attributes:
      action: RECORD writes all changes down; KILL and HALF end the process before the change or
        in the middle of a write; FAIL makes the change fail.
      at: number of the change, from 1.
      error: errno of the failure.
      lasting: whether all later changes fail too, as on a full disk.
      journal: file of the records; `import_as` reads another one beside it.
    """

    action: int
    at: int = 0
    error: int = 0
    lasting: bool = False
    journal: Path | None = None


FAILURES = {
    "EIO": Fault(FAIL, error=errno.EIO),
    "ENOSPC": Fault(FAIL, error=errno.ENOSPC, lasting=True),
    "EROFS": Fault(FAIL, error=errno.EROFS, lasting=True),
}
"""A drive that errs once, a disk that is full from then on, one that becomes read-only."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status (negative: the signal), its output, and whether it was
    killed because it took too long.
    """

    status: int
    stdout: str
    stderr: str
    hangs: bool


def compiler() -> str | None:
    """Returns the path of a C compiler, or None."""
    return next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))), None)


def build(folder: Path) -> Path:
    """Compiles the library into a folder and returns it."""
    library = folder / "file_faults.so"
    command = [compiler(), "-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-o", library, SOURCE]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return library


def preload(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Returns the environment of a Python process that can call `start`."""
    library = str(build(folder))
    return {**environment, "LD_PRELOAD": library, "FILE_FAULTS": library}


def start(
    command: Sequence[str] | Callable[[], None],
    directory: Path,
    fault: Fault | None = None,
    timeout: float = 600,  # a slow machine is no fault
) -> Ended:
    """Runs a command in a forked process.

    Args:
      command: the words after `nevis-stream`; or a function.
      directory: its working directory; only changes of files below it count.
      fault: what happens to it.
      timeout: seconds after which it is killed, and counts as hanging.
    """
    folder = Path(tempfile.mkdtemp(prefix="forked-"))  # an object would delete it in the child too
    output = [folder / "stdout", folder / "stderr"]
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become(command, directory, output, fault)
    waiting = select.poll()
    descriptor = os.pidfd_open(child)
    waiting.register(descriptor, select.POLLIN)
    hangs = not waiting.poll(1000 * timeout)
    if hangs:
        os.kill(child, signal.SIGKILL)
    os.close(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = [file.read_text(errors="replace") if file.exists() else "" for file in output]
    shutil.rmtree(folder)
    return Ended(status, texts[0], texts[1], hangs)


def _become(command, directory: Path, output: Sequence[Path], fault: Fault | None) -> None:
    """Is the forked process, to its end."""
    status = 1
    try:
        for number, file in enumerate([Path(os.devnull), *output]):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
        os.chdir(directory)
        os.environ["TMPDIR"], tempfile.tempdir = str(directory / TEMPORARY), None
        tempfile.gettempdir()  # Python tries it with a file of its own, which a kill would leave
        if fault is not None:
            _arm(directory, fault)
        if callable(command):
            command()
        else:
            from nevis_stream.launch import console

            sys.argv[:] = ["nevis-stream", *command]
            console.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    if fault is not None and fault.action == RECORD:
        fault.journal.with_suffix(".modules").write_text("\n".join(sys.modules))
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _arm(directory: Path, fault: Fault) -> None:
    journal = -1
    if fault.journal is not None:
        journal = os.open(fault.journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    library = ctypes.CDLL(os.environ["FILE_FAULTS"])
    below = str(directory.resolve()).encode()
    library.file_faults_arm(
        below, fault.action, ctypes.c_long(fault.at), fault.error, fault.lasting, journal
    )


def import_as(journal: Path) -> None:
    """Imports what a command with this journal imported, so that others forked later need not.

    The modules of commands, which define flags, are imported anew by each.
    """
    for name in journal.with_suffix(".modules").read_text().splitlines():
        if name not in sys.modules and not name.startswith("nevis_stream.launch."):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
