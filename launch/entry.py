"""The start of every command: flags, help, errors without tracebacks, signals, compiled code.

Ctrl-C ends a command with status 130 and a line, whenever it comes: while the command is still
imported (`launch.end_at_once`), while it works, and while it ends.
"""

import contextlib
import functools
import math
import os
import re
import signal
import sqlite3
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from absl import flags, logging

from nevis_stream import user_code
from nevis_stream.errors import NevisStreamError, unknown
from nevis_stream.storage import reading
from nevis_stream.terminal import protect_streams

USAGE_ERROR = 2
INCOMPLETE = 1  # exit status when something remains to be done
WIDTH = 100  # columns of help
CONSOLE_COMMAND = "nevis-stream"
CACHED_SECONDS = 0.05  # programs that took at least this long to compile are kept
_COMMAND = re.compile(r"python -m (?:nevis_stream\.)?launch\.(\w+)")
_WRONG_VALUE = re.compile(r"flag --(\w+)=(.*?): (?:invalid literal|could not convert)", re.DOTALL)
_NUMBERS = {"int": "a whole number", "float": "a number"}
_EXAMPLES = {"year": 2024}
# TERM, and those that SLURM's --signal and submitit send
_STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_console_started = False
_warnings_shown: set[str] = set()


def start(
    main: Callable[[Sequence[str]], None],
    take: Callable[[Sequence[str]], Sequence[str]] = list,
    hint: Callable[[str], str] = str,
    words: str = "",
    lists: Callable[[], str] = str,
) -> None:
    """Starts a command: parses its flags and calls `main(words that are not flags)`; a user's
    mistake prints a message and exits with 2.

    Args:
      main: does the work; its module's docstring and flags are the help.
      take: takes the command's words and returns those that are parsed as flags.
      hint: completes the message about a wrong flag or word.
      words: what the words that are not flags mean, for example "RUN_DIR ..."; empty if the command
        takes none.
      lists: returns the end of the help, for example the valid values of a flag.
    """
    guard(lambda: _start(main, take, hint, words, lists))


def _start(main, take, hint, words, lists) -> None:
    if asks_for_help(get_arguments()):
        about = sys.modules["__main__"].__doc__.strip()
        usage = " ".join(filter(None, (get_command(), words, "[flags]")))
        show_help(f"{about}\n\nUsage: {usage}\n\n{format_flags(_own_flags())}{lists()}")
    rest = parse(take(get_arguments()), flags.FLAGS, get_command(), hint)
    if rest and not words:
        problem = hint(f"{rest[0]!r}: this command takes flags only.")
        fail(f"{problem}\nSee: {get_command()} --help")
    main(rest)


def guard(work: Callable[[], None]) -> None:
    """Calls `work`; a user's mistake becomes a message, and no control character is printed."""
    protect_streams()
    # OpenBLAS's threads spin while they wait: with other processes on the same cores, eigenvectors
    # of 512×512 cost 30 times the CPU seconds of one thread. It reads this when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = _show_warning
    logging.set_verbosity(logging.WARNING)  # JAX reports every backend that it does not find
    user_code.look_in([os.getcwd()])
    _pass_over_plot_settings()
    with heed_interrupts():
        _say_mistakes(work)


def _pass_over_plot_settings() -> None:
    """Imports Matplotlib elsewhere if the working directory has settings for it: they may be a
    stranger's, which would change figures, or a pipe, which would block.
    """
    if not os.path.lexists("matplotlibrc"):
        return
    here = os.open(".", os.O_RDONLY)
    os.chdir("/")
    try:
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)


def _say_mistakes(work: Callable[[], None]) -> None:
    try:
        work()
    except NevisStreamError as error:
        fail(str(error))
    except BrokenPipeError:  # `… | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, sqlite3.Error) as error:
        fail(reading.describe_fault(error))


def get_arguments() -> list[str]:
    """Returns the words after the command's name."""
    return sys.argv[1:]


def get_command() -> str:
    """Returns the command as the user typed it, without its flags."""
    spec = sys.modules["__main__"].__spec__
    return as_typed(f"python -m {spec.name if spec else Path(sys.argv[0]).stem}")


def use_console_command() -> None:
    """Makes messages and help write `nevis-stream run` instead of `python -m launch.run`."""
    global _console_started
    _console_started = True


def as_typed(text: str) -> str:
    """Returns a text with its commands written in the form in which this one was started.

    >>> as_typed("next: python -m launch.report runs/a")
    'next: python -m launch.report runs/a'
    """
    if _console_started:
        return _COMMAND.sub(lambda match: f"{CONSOLE_COMMAND} {match[1].replace('_', '-')}", text)
    spec = sys.modules["__main__"].__spec__
    installed = spec is not None and spec.name.startswith("nevis_stream.")
    return _COMMAND.sub(r"python -m nevis_stream.launch.\1", text) if installed else text


def parse(
    words: Sequence[str],
    values: flags.FlagValues,
    name: str,
    hint: Callable[[str], str] = str,
) -> list[str]:
    """Sets flags from a command's words and returns the other words; a mistake ends the process.

    Args:
      words: those after the command's name.
      values: the flags.
      name: the command's name, for messages.
      hint: completes a message.
    """
    try:
        if values is not flags.FLAGS:
            flags.FLAGS([name])
        rest = values([name, *words])[1:]
        if "data_dir" in values and values.data_dir:
            os.environ["NEVIS_STREAM_DATA"] = str(Path(values.data_dir).absolute())
        for flag in values:  # absl takes "nan" for a number within any bounds
            if isinstance(values[flag].value, float) and math.isnan(values[flag].value):
                raise flags.IllegalFlagValueError(f"--{flag}=nan: a number is expected.")
        return rest
    except flags.UnrecognizedFlagError as error:
        valid = values if values is not flags.FLAGS else [flag.name for flag in _own_flags()]
        problem = unknown("flag", f"--{error.flagname}", [f"--{flag}" for flag in valid])
    except (flags.Error, OSError) as error:
        problem = _plain(str(error), values)
    fail(f"{hint(problem)}\nSee: {name} --help")


def _plain(problem: str, values: flags.FlagValues) -> str:
    """Returns absl's message about a flag that needs a number, in plain words."""
    match = _WRONG_VALUE.match(problem)
    kind = values[match[1]].flag_type() if match and match[1] in values else ""
    if kind not in _NUMBERS:
        return problem
    flag, example = match[1], _EXAMPLES.get(match[1], 3)
    return f"--{flag}={match[2]}: {_NUMBERS[kind]} is expected, for example --{flag}={example}."


def _own_flags() -> list[flags.Flag]:
    return flags.FLAGS.get_key_flags_for_module("__main__")


def asks_for_help(words: Sequence[str]) -> bool:
    """Returns whether words ask for help; those after `--` belong to another command."""
    if "--" in words:
        words = words[: words.index("--")]
    return bool(words) and (
        words[0] == "help" or not {"-h", "-help", "--help", "--helpfull", "-?"}.isdisjoint(words)
    )


def show_help(text: str) -> None:
    """Prints help and ends the process with status 0."""
    print(as_typed(text), flush=True)
    sys.exit(0)


def format_flags(shown: Iterable[flags.Flag]) -> str:
    """Returns the flags with their meanings, choices and defaults."""
    lines = ["Flags:"]
    for flag in sorted(shown, key=lambda flag: flag.name):
        meaning = flag.help.partition(";\n    repeat this option")[0]  # absl's addition
        text = f"--{flag.name}: {meaning}"
        if not any(flag.default is empty for empty in (None, False, "")) and flag.default != []:
            text += f" (default: {flag.default_as_str.strip(chr(39))})"
        lines += textwrap.wrap(
            text, WIDTH - 2, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
        )
    return "\n".join(lines) + "\n"


def fail(message: str) -> None:
    """Prints an error and exits with status 2."""
    print(as_typed(f"error: {message}"), file=sys.stderr)
    sys.exit(USAGE_ERROR)


def stop_at_signals() -> None:
    """Makes the signals by which machines and clusters stop a run end the process, status 143."""
    for number in _STOPPING:
        signal.signal(number, _stop)


def _stop(signum, frame) -> None:
    for number in _STOPPING:  # a second signal would print the message twice
        signal.signal(number, signal.SIG_IGN)
    message = (
        f"\nstopped by {signal.Signals(signum).name}: start the same command again to continue\n"
    )
    os.write(2, message.encode())  # print is not re-entrant, and the signal may interrupt it
    os._exit(143)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Prints a warning once, not once for each learner of a command that has several."""
    text = as_typed(f"warning: {message}")
    if text not in _warnings_shown:
        _warnings_shown.add(text)
        print(text, file=sys.stderr)


def find_compilation_cache() -> Path:
    """Returns the directory of compiled programs, in NEVIS_STREAM_CACHE or the user's cache."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("NEVIS_STREAM_CACHE") or caches / "nevis_stream") / "xla"


def use_compilation_cache() -> None:
    """Keeps compiled programs in `find_compilation_cache`, for later processes."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(find_compilation_cache()))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", CACHED_SECONDS)


_MOMENT = 0.05  # seconds, in which a callback ends


@contextlib.contextmanager
def heed_interrupts() -> Iterator[None]:
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
    if not _is_importing(frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, _end)
    _interrupt_soon()


def _is_importing(frame) -> bool:
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
