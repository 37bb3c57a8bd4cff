"""The commands; importing this package first takes the working directory off Python's path, and
lets Ctrl-C end a command that is still being imported.
"""

import os
import sys


def _leave_working_directory() -> None:
    """Removes the folder that `python -m` has put first, unless this package is found there.

    A library that looks for an optional module would import a stranger's file of its name.
    """
    checkout = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    # "-m" while the module is looked for, and only then
    found_by_module = sys.argv[:1] == ["-m"] and not sys.flags.safe_path
    if found_by_module and os.path.realpath(sys.path[0]) != checkout:
        del sys.path[0]


_leave_working_directory()
import signal  # noqa: E402 - only now, since a stranger's folder may have a file of this name


def end_at_once(signum, frame) -> None:
    """Ends the process as an interrupted command: nothing has begun. `entry.guard` takes over."""
    os.write(2, b"\ninterrupted: nothing was begun\n")
    os._exit(130)


def _is_command() -> bool:
    """Whether a process was started for a command, so that its signals are ours."""
    return sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0]) == "nevis-stream"


def _use_utf8() -> None:
    """Starts the process again in Python's UTF-8 mode if the locale has another encoding, which
    could neither print our texts nor read files in UTF-8. With -E or -I, Python does not hear of
    the mode, and would be started again without end.
    """
    import locale

    is_utf8 = locale.getpreferredencoding().upper().replace("-", "") == "UTF8"
    if not is_utf8 and not sys.flags.ignore_environment:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


if _is_command():
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)
    _use_utf8()
