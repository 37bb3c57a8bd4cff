"""Reading run directories: those that can be used, and those that are left out with the reason."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nevis_stream.analysis.consistency import compare_streams, find_first_difference, run_notes
from nevis_stream.analysis.own_files import find_own_file, read_own_file
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.environment import CONVENTIONS_KEY
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger, find_run_dirs
from nevis_stream.run_directory.records import Header, TrainRecord
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.tables import parse_csv
from nevis_stream.terminal import as_text

_ALONE = "so the run counts as a method of its own, not as a seed of another"
_LONGEST = 200  # characters of an error's text


@dataclass(frozen=True)
class Run:
    """One run directory whose ledger can be trusted.

    Attributes:
      path: the directory.
      name: what it is called in tables: the directory's name, longer where two share it.
      ledger: its records.
      settings: the config's values by dotted name, except the seed; None if config.json cannot be
        used.
      notes: what a reader of its numbers should know.
      unread: by name, why a file of it that is there could not be read; it grows while a report
        reads them.
    """

    path: Path
    name: str
    ledger: Ledger = field(repr=False, compare=False)
    settings: Mapping[str, str] | None = field(repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    unread: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def header(self) -> Header:
        """The ledger's first record."""
        return self.ledger.header

    @property
    def published(self) -> bool:
        """Whether the results were copied from a publication (`experiments.published`)."""
        return self.header.published


@dataclass(frozen=True)
class LeftOut:
    """A path that is not used, why, and whether it is because a file could not be read, or
    contradicts another.
    """

    path: Path
    reason: str
    damaged: bool = False


class NothingToRead(BadInput):
    """A path has no results yet, or none at all."""


def read_runs(run_dirs: Iterable[str | Path]) -> tuple[list[Run], list[LeftOut]]:
    """Reads run directories; those that cannot be used are returned with the reason.

    Runs with the same config hash (and so the same seed) are repetitions, not more samples: if
    their ledgers agree, the one with most records is kept, otherwise none. A run whose stream
    differs from the most frequent one with the same digest is left out; if two are the most
    frequent, all are.

    Args:
      run_dirs: paths of run directories, or of folders of several seeds or of a sweep, in the order
        in which they should be listed.

    Returns:
      The usable runs (unfinished ones too) and the others.
    """
    paths = list(dict.fromkeys(path for name in run_dirs for path in find_run_dirs(Path(name))))
    names = _names(paths)
    runs: list[Run] = []
    left_out: list[LeftOut] = []
    for path in paths:
        try:
            ledger = _read_ledger(path)
            unread: dict[str, str] = {}
            settings, reason = _settings(path, ledger.header.config_hash, unread)
            notes = tuple(filter(None, (reason, *run_notes(ledger))))
            runs.append(Run(path, names[path], ledger, settings, notes, unread))
        except NothingToRead as error:
            left_out.append(LeftOut(path, str(error)))
        except (BadInput, OSError) as error:
            left_out.append(LeftOut(path, str(error), damaged=True))
        except Exception as error:  # one damaged file must not stop the others from being read
            reason = f"cannot be read: {type(error).__name__}: {str(error)[:_LONGEST]}"
            left_out.append(LeftOut(path, reason, damaged=True))
    return _without_repetitions(_without_contradictions(runs, left_out), left_out)


def group_by_stream(runs: Iterable[Run]) -> dict[tuple[str, str], list[Run]]:
    """Returns the runs that may be compared with each other, by (stream digest, protocol).

    A published run has no data and so no digest of them. It joins every group whose runs have its
    tasks in its order (tasks without a published value are ignored), and has a group of its own
    only if there is no such group (docs/decisions/0016).
    """
    runs = list(runs)
    own: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if not run.published:
            own.setdefault(_digest_and_protocol(run), []).append(run)
    groups = {key: list(group) for key, group in own.items()}
    for run in runs:
        if run.published:
            keys = [key for key, group in own.items() if any(_same_tasks(run, o) for o in group)]
            for key in keys or [_digest_and_protocol(run)]:
                groups.setdefault(key, []).append(run)
    return groups


def _digest_and_protocol(run: Run) -> tuple[str, str]:
    return run.header.stream_digest, run.header.protocol


def _same_tasks(published: Run, run: Run) -> bool:
    """Whether a run has a published run's tasks in the same order, as far as it has come."""
    left_out = published.header.left_out
    number = published.header.tasks + len(left_out)
    if (published.header.protocol, number) != (run.header.protocol, run.header.tasks):
        return False
    theirs, done = _tasks(published), [task for task in _tasks(run) if task[0] not in left_out]
    return bool(done) and done == theirs[: len(done)]


def _tasks(run: Run) -> list[tuple[str, str]]:
    return [(train.task_id, train.meta_split) for train in run.ledger.of_kind(TrainRecord)]


def read_fingerprints(run: Run) -> dict[str, str]:
    """Returns what identifies the data of each task, as far as the run's stream.csv states it."""

    def read(file: Path) -> dict[str, str]:
        rows = parse_csv(read_bytes(file).decode())
        return {row["task_id"]: row["fingerprint"] for row in rows if row["fingerprint"]}

    return read_own_file(run.path, "stream.csv", read, run.unread) or {}


def _read_ledger(path: Path) -> Ledger:
    if not path.is_dir():
        raise BadInput("not a directory" if path.exists() else "no such directory")
    if not (path / FILE_NAME).exists():
        raise NothingToRead(f"not a run directory: it has no {FILE_NAME}")
    find_own_file(path, FILE_NAME)
    ledger = Ledger(path)
    if not ledger.records:
        if ledger.path.stat().st_size:
            raise BadInput(f"{FILE_NAME} has no complete line: it is cut, or not a ledger")
        raise NothingToRead(f"{FILE_NAME} is empty: the run has not begun")
    return ledger


def _settings(
    path: Path, config_hash: str, unread: dict[str, str]
) -> tuple[dict[str, str] | None, str]:
    """Returns the settings and an empty text, or None and why there are none; `unread` as of
    `read_own_file`.
    """
    try:
        find_own_file(path, "config.json")
        config = read_config(path)
        settings = _flatten(config.values)
    except FileNotFoundError:
        return None, f"config.json is missing; {_ALONE}"
    except (BadInput, RecursionError) as error:
        unread["config.json"] = str(error).removeprefix(f"{path}/config.json: ").rstrip(".")
        return None, f"{str(error).rstrip('.')}; {_ALONE}"
    if config.config_hash not in ("", config_hash):
        return None, (
            f"config.json has hash {config.config_hash}, the ledger {config_hash}: it belongs to"
            f" another run; {_ALONE}"
        )
    return {n: value for n, value in settings.items() if n.rpartition(".")[2] != "seed"}, ""


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in sorted(values.items()):
        if isinstance(value, dict) and value:
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = json.dumps(value, sort_keys=True)
    return flat


def _names(paths: list[Path]) -> dict[Path, str]:
    short = [path.name for path in paths]
    return {
        path: as_text(path.name if short.count(path.name) == 1 else str(path)) for path in paths
    }


def _without_contradictions(runs: list[Run], left_out: list[LeftOut]) -> list[Run]:
    """Leaves out runs whose stream differs from the most frequent one with the same digest; if
    two are the most frequent, all of them.
    """
    alike: dict[tuple[str, str], list[list[Run]]] = {}
    for run in runs:
        # a rule that depends on the results may choose other events for other learners
        if run.published or run.header.rule is not None:
            continue
        groups = alike.setdefault(_digest_and_protocol(run), [])
        for group in groups:
            if not compare_streams(run.ledger, group[0].ledger):
                group.append(run)
                break
        else:
            groups.append([run])
    wrong: set[Path] = set()
    for groups in alike.values():
        groups.sort(key=len, reverse=True)
        tied = len(groups) > 1 and len(groups[0]) == len(groups[1])
        for group in groups[0 if tied else 1 :]:
            other = groups[0][0] if group is not groups[0] else groups[1][0]
            difference = compare_streams(group[0].ledger, other.ledger)
            advice = "neither is used" if tied else "most runs agree with that one"
            for run in group:
                wrong.add(run.path)
                reason = (
                    f"has the stream digest of {other.path} but a different stream: {difference};"
                    f" {advice}"
                )
                left_out.append(LeftOut(run.path, reason, damaged=True))
    return [run for run in runs if run.path not in wrong]


def _agreement(run: Run, repetitions: Sequence[Run]) -> tuple[int, int]:
    """With how many repetitions a run agrees, and its number of records: the largest pair belongs
    to a run that differs only from damaged or altered copies.
    """
    agreeing = sum(not find_first_difference(run.ledger, other.ledger) for other in repetitions)
    return agreeing, len(run.ledger.records)


def _without_repetitions(
    runs: list[Run],
    left_out: list[LeftOut],
) -> tuple[list[Run], list[LeftOut]]:
    by_config: dict[tuple, list[Run]] = {}
    for run in runs:
        versions = {
            n: v for n, v in (run.settings or {}).items() if n.startswith(f"{CONVENTIONS_KEY}.")
        }
        by_config.setdefault((run.header.config_hash, *versions.items()), []).append(run)
    longest = []
    for (config_hash, *_), repetitions in by_config.items():
        furthest = max(repetitions, key=lambda run: _agreement(run, repetitions))
        differences = (
            (run, find_first_difference(run.ledger, furthest.ledger)) for run in repetitions
        )
        differing, difference = next((pair for pair in differences if pair[1]), (furthest, ""))
        if difference:
            none = "neither" if len(repetitions) == 2 else f"none of the {len(repetitions)} runs"
            reason = (
                f"same config and seed (hash {config_hash}), but contradicting ledgers:"
                f" {differing.path} and {furthest.path} differ in {difference}; {none} is used"
            )
            left_out += [LeftOut(run.path, reason, damaged=True) for run in repetitions]
            continue
        longest.append(furthest)
        reason = f"the same config and seed (hash {config_hash}) as {furthest.path}"
        left_out += [
            LeftOut(run.path, f"{reason}; a repetition is counted once")
            for run in repetitions
            if run is not furthest
        ]
    return [run for run in runs if run in longest], left_out
