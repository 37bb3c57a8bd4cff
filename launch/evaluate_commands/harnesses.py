"""`launch.evaluate with-lm-eval` and `with-inspect`: a harness is run on what a session asks, and
the session is told its logs, until it has ended.
"""

import itertools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from absl.flags import FlagValues

from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.importers.harness_requests import (
    format_for_inspect,
    format_for_lm_eval,
)
from nevis_stream.launch import entry
from nevis_stream.launch.evaluate_commands.sessions import show_status, tell_file
from nevis_stream.launch.owned_program import run_owned, wait_for_ending
from nevis_stream.storage.reading import locate, make_relative, read_json
from nevis_stream.storage.record import as_lines

_UNTOLD = ".untold.json"  # beside complete logs, and says whose they are until they are told

_LONGEST_WORD = 100_000  # bytes of a word of a command; Linux takes 131,072


@dataclass(frozen=True)
class Harness:
    """How a harness is told what to run.

    Attributes:
      output: names of its flag for the folder of its logs, which the user's command gives.
      refused: names of the flags that the user's command must not have.
      arguments: returns the added words, given the board, samples, and a new folder for the logs.
    """

    output: tuple[str, ...]
    refused: tuple[str, ...]
    arguments: Callable[[EvaluationCache, Sequence[str], Path], list[str]]


def _list_lm_eval_arguments(
    board: EvaluationCache, samples: Sequence[str], logs: Path
) -> list[str]:
    by_task = format_for_lm_eval(board, samples)
    for task in by_task:
        if os.path.isfile(task) or os.path.isdir(task) and [*Path(task).glob("*.yaml")]:
            raise BadInput(
                f"task {task!r}: there is a file of this name here, or a folder with yaml files,"
                " which lm-evaluation-harness may load instead. Give it another name, or start the"
                " command elsewhere."
            )
    asked = logs / "asked.json"  # a file, as words of commands have a largest length
    asked.write_text(json.dumps(by_task))
    return ["--tasks", ",".join(by_task), "--samples", str(asked), "--log_samples"]


_LM_EVAL = Harness(
    ("--output_path", "-o"), ("--tasks", "-t", "--samples", "-E"), _list_lm_eval_arguments
)
_INSPECT = Harness(
    ("--log-dir",),
    ("--sample-id", "--limit"),
    lambda board, samples, logs: ["--sample-id", format_for_inspect(board, samples)],
)


def with_lm_eval(words: Sequence[str], values: FlagValues) -> None:
    """Runs a command of lm-evaluation-harness until the session has ended."""
    _run(_LM_EVAL, words, values)


def with_inspect(words: Sequence[str], values: FlagValues) -> None:
    """Runs a command of inspect_ai until the session has ended."""
    _run(_INSPECT, words, values)


def _run(harness: Harness, words: Sequence[str], values: FlagValues) -> None:
    entry.use_compilation_cache()
    entry.stop_at_signals()
    directory, *command = words
    output = _find_output(harness, command)
    session = Session(directory)
    model = session.track(values.model).model
    wait_for_ending(output)
    for untold in sorted(output.glob(f"*{_UNTOLD}")):
        if _is_of(untold, session, model):
            _tell(untold, session, model, values)
    for given in session.batches(model):
        samples = [session.ids[each] if isinstance(each, int) else each for each in given]
        while samples:
            logs, part = _make_folder(output), samples
            while True:
                added = harness.arguments(session.cache, part, logs)
                if len(part) == 1 or max(map(len, map(str.encode, added))) <= _LONGEST_WORD:
                    break
                part = part[: len(part) // 2]
            untold = logs.with_name(logs.name + _UNTOLD)
            of = as_lines({"session": make_relative(session.directory, output), "model": model})
            try:
                status = run_owned([*command, *added, harness.output[0], str(logs)], untold, of)
            except OSError as error:
                raise BadInput(f"{command[0]}: cannot be started ({error.strerror}).") from None
            if status:
                raise BadInput(
                    f"{command[0]} ended with status {status}, and nothing of {logs} was told. What"
                    " was told before is kept; the same command continues."
                )
            _tell(untold, session, model, values)
            samples = samples[len(part) :]
    show_status(session)


def _is_of(untold: Path, session: Session, model: str) -> bool:
    """Returns whether the logs of a start are those of a session's model."""
    try:
        of = read_json(untold)
        there = locate(of["session"], untold.parent)
        return of["model"] == model and os.path.samefile(there, session.directory)
    except (OSError, ValueError, KeyError, TypeError):  # not written here
        return False


def _tell(untold: Path, session: Session, model: str, values: FlagValues) -> None:
    """Tells the logs of a start, unless that was done; it is the last time also if they are
    refused, as the same command would never get further.
    """
    try:
        tell_file(session, untold.with_name(untold.name.removesuffix(_UNTOLD)), model, values)
    except BadInput:
        untold.unlink(missing_ok=True)
        raise
    untold.unlink(missing_ok=True)


def _find_output(harness: Harness, command: Sequence[str]) -> Path:
    """Returns the folder that a command names for its logs."""
    found = ""
    for word, following in itertools.pairwise([*command, ""]):
        name, has_value, value = word.partition("=")
        if name in harness.refused:
            raise BadInput(f"{name}: the session says what is run, so leave it out.")
        if name in harness.output:
            found = value if has_value else following
    if not found:
        raise BadInput(
            f"after --, the harness's command is expected, with {harness.output[0]}=FOLDER."
        )
    return Path(found)


def _make_folder(parent: Path) -> Path:
    """Makes a folder of its own for each start: of several logs of a task in one, the last counts.

    Raises:
      BadInput: it cannot be made.
    """
    for number in itertools.count(1):
        try:
            (folder := parent / f"asked-{number:04}").mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise BadInput(f"{parent}: no folder can be made there ({error.strerror}).") from None
        return folder
    raise AssertionError("numbers do not end")
