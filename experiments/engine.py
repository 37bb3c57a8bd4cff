"""The engine of studies and benchmarks: flags of a command are the parameters of its function,
which its docstring explains, cells that a record lacks are measured, perhaps in new processes, and
tables are printed in Markdown.
"""

import argparse
import inspect
import multiprocessing
import os
import re
import sys
import time
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from typing import Any
from unittest import mock

from nevis_stream.experiments.study_record import Cell, StudyRecord
from nevis_stream.launch import entry
from nevis_stream.launch.owned_program import end_with_parent

_ABOUT = re.compile(r"^  (\w+): (.*(?:\n    .*)*)", re.M)  # a parameter, in a docstring


def start(*commands: Callable[..., None], keep_programs: bool = True) -> None:
    """Starts a script: parses its flags and calls one of its commands.

    A parameter is a flag, one without a default a flag that is needed; `*words` are the other
    words. What a flag may be follows from the annotation: a bool is a switch, an int a whole number
    from 1, or from the default if that is less, a Literal one of its values. Of a tuple of texts
    some may be chosen, joined by commas; of a tuple of numbers there may be others.

    Args:
      *commands: of several the first word names one.
      keep_programs: whether compiled programs are kept for later processes.
    """
    entry.guard(lambda: _start(commands, keep_programs))


def _start(commands: Sequence[Callable[..., None]], keep_programs: bool) -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=form
    )
    if len(commands) == 1:
        _define_flags(parser, commands[0])
    else:
        names = "|".join(each.__name__ for each in commands)
        several = parser.add_subparsers(required=True, metavar=names)
        for each in commands:
            about = inspect.getdoc(each)
            _define_flags(several.add_parser(each.__name__, description=about), each)
    values = vars(parser.parse_args())
    if keep_programs:
        entry.use_compilation_cache()
    values.pop("command")(*values.pop("words", ()), **values)


def _define_flags(parser: argparse.ArgumentParser, command: Callable[..., None]) -> None:
    parser.set_defaults(command=command)
    about = dict(_ABOUT.findall(inspect.getdoc(command) or ""))
    for each in inspect.signature(command).parameters.values():
        flag, default = f"--{each.name}", each.default
        kind = each.annotation
        if types.NoneType in typing.get_args(kind):  # a value, or None
            kind = typing.get_args(kind)[0]
        needed = default is each.empty
        said = [" ".join(about[each.name].split())] if each.name in about else []
        shown = " ".join([*said, *([] if needed or default is None else [str(default)])])
        if each.kind is each.VAR_POSITIONAL:
            parser.add_argument(each.name, nargs="*", type=kind)
        elif kind is bool:
            parser.add_argument(flag, action="store_true", help=" ".join(said))
        elif isinstance(default, tuple):
            shown = " ".join([*said, ",".join(map(str, default))])
            parser.add_argument(flag, type=_make_list_parser(default), default=default, help=shown)
        elif choices := [choice for choice in typing.get_args(kind) if isinstance(choice, str)]:
            parser.add_argument(flag, choices=choices, default=default, help=shown)
        else:
            parse = _make_whole_parser(0 if default == 0 else 1) if kind is int else kind
            value = None if needed else default
            parser.add_argument(flag, type=parse, default=value, required=needed, help=shown)


def _make_whole_parser(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least}")
        return int(text)

    return parse


def _make_list_parser(valid: Sequence[Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        if isinstance(valid[0], int):
            return [_make_whole_parser(0)(word) for word in text.split(",")]
        words = re.split(",(?! )", text)  # names may have a comma and a space
        if wrong := set(words) - set(valid):
            raise argparse.ArgumentTypeError(
                f"{sorted(wrong)[0]!r}: choose from {', '.join(map(str, valid))}"
            )
        return words

    return parse


def measure_missing(
    record: StudyRecord, cells: Iterable[Cell], measure: Callable[..., Iterable[Any]]
) -> None:
    """Adds the rows of the cells that a record lacks, and names each when it is done.

    Args:
      record: of the study.
      cells: in the order in which they are measured; each names a matrix.
      measure: takes the values of a cell by name, and returns its rows.
    """
    import jax

    matrix = None
    for cell in cells:
        if cell not in record:
            if cell["matrix"] != matrix:  # those of one have the same shapes, and share programs
                jax.clear_caches()
            matrix = cell["matrix"]
            record.add(cell, list(measure(**cell)))
            print(", ".join(f"{name} {value}" for name, value in cell.items()), flush=True)


def print_table(heads: str, rows: Iterable[Sequence[object]]) -> None:
    """Prints a table in Markdown, each row when it is there.

    Args:
      heads: joined by " | "; a column of numbers has ":" at the end.
      rows: the cells, which are printed as they are.
    """
    names = heads.split(" | ")
    print_row(name.removesuffix(":") for name in names)
    print(f"|{'|'.join('---:' if name.endswith(':') else '---' for name in names)}|")
    for row in rows:
        print_row(row)


def print_row(cells: Iterable[object]) -> None:
    """Prints a row of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def call_apart(function: Callable[..., Any], *arguments: Any, **variables: str) -> Any:
    """Returns what a function of a module returns in a new process, which nothing before has used.

    Args:
      function: at the top of its module, which the process imports.
      arguments: of the function; they and its result are pickled.
      variables: of the process's environment, beside those of this one.
    """
    fresh = multiprocessing.get_context("spawn")
    with (
        mock.patch.dict(os.environ, variables),
        futures.ProcessPoolExecutor(1, fresh, end_with_parent) as one,
    ):
        return one.submit(function, *arguments).result()


def time_calls(
    work: Callable[[], object],
    repeats: int,
    now: Callable[[], float] = time.process_time,
) -> list[float]:
    """Returns the seconds of each of several calls, by default CPU seconds of this process."""
    seconds = []
    for _ in range(repeats):
        begun = now()
        work()
        seconds.append(now() - begun)
    return seconds
