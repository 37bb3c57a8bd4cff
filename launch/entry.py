"""What the entry points share: flags that teach, errors without tracebacks, a compilation cache."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags, logging

from nevis_stream.errors import NevisStreamError
from nevis_stream.terminal import protect_streams

USAGE_ERROR = 2
# SLURM's --signal, and what submitit asks it to send
_STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def start(
    main: Callable[[Sequence[str]], None],
    take: Callable[[Sequence[str]], Sequence[str]] | None = None,
    hint: Callable[[Exception], str] = str,
) -> None:
    """Parses flags and calls `main(positional arguments)`; a user's mistake prints its message and
    exits with 2.

    Args:
      main: the entry point.
      take: takes words that are no flags out of the command's words, before these are parsed.
      hint: turns an exception of the flags' parsing into a message.
    """
    protect_streams()
    warnings.showwarning = _show_warning
    logging.set_verbosity(logging.WARNING)  # JAX names every backend that it does not find

    def parse(argv: Sequence[str]) -> list[str]:
        try:
            words = [argv[0], *(take(argv[1:]) if take else argv[1:])]
            return _help(words) if _asks_for_help(words) else flags.FLAGS(words)
        except BrokenPipeError:  # of the help's reader
            raise
        except (flags.Error, OSError) as error:
            fail(f"{hint(error)}\nSee: python -m {_module()} --help")

    find_modules(Path.cwd())
    _guarded(lambda: app.run(lambda argv: main(argv[1:]), flags_parser=parse))


def find_modules(folder: Path) -> None:
    """Lets a user's learners be imported from a folder, after everything that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _asks_for_help(argv: Sequence[str]) -> bool:
    return any(
        word.lstrip("-") in ("help", "helpfull", "helpshort") or word == "-?" for word in argv[1:]
    )


def _help(argv: Sequence[str]) -> list[str]:
    try:
        return app.parse_flags_with_usage(list(argv))
    except SystemExit:  # absl ends with 1 after its help, as after a mistake
        sys.exit(0)


def _guarded(work: Callable[[], None]) -> None:
    try:
        work()
    except NevisStreamError as error:
        fail(str(error))
    except BrokenPipeError:  # `… | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {os.strerror(error.errno) if error.errno else error}")
    except KeyboardInterrupt:
        print("\ninterrupted: start the same command again to go on from here", file=sys.stderr)
        sys.exit(130)


def fail(message: str) -> None:
    """Prints an error and exits with status 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


def stop_at_signals() -> None:
    """Ends the process at once, with status 143, at the signals with which machines and clusters
    stop a run.
    """
    for number in _STOPPING:
        signal.signal(number, _stop)


def _stop(signum, frame) -> None:
    for number in _STOPPING:  # a second one, on the way out, would print it twice
        signal.signal(number, signal.SIG_IGN)
    message = (
        f"\nstopped by {signal.Signals(signum).name}: start the same command again to go on from"
        " here\n"
    )
    os.write(2, message.encode())  # a print may have been interrupted, and cannot be entered again
    os._exit(143)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _module() -> str:
    spec = sys.modules["__main__"].__spec__
    return spec.name if spec else Path(sys.argv[0]).stem


def use_compilation_cache() -> None:
    """Keeps compiled programs in NEVIS_STREAM_CACHE, else the user's cache folder, so that later
    processes skip compiling.
    """
    import jax

    base = os.environ.get("NEVIS_STREAM_CACHE")
    home = (
        Path(base)
        if base
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nevis_stream"
    )
    jax.config.update("jax_compilation_cache_dir", str(home / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
