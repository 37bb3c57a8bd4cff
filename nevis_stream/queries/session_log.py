"""What every session that asks and is told keeps in its directory, over restarts and for several
processes: settings, rounds of what was asked, and answers.

    SETTINGS   written last when a session starts, with a checksum, and never changed
    rounds     one line for each round of what was asked; a round follows from the settings, earlier
               rounds and the answers so far, so that what a kill interrupted is repeated
    answers    one line for each file, or call, of answers: all of them or none

Both logs are only appended to, and each line is written whole or not at all, with checksums
(`nevis_stream.storage.record`). Labelling (`active_testing.labelling.session`) and live
evaluation (`dynamic_evaluation.session`) are sessions.
"""

import contextlib
import fcntl
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from nevis_stream.errors import BadInput, NevisStreamError, plural, unknown
from nevis_stream.storage import lock_exclusively, remove_abandoned, write_file
from nevis_stream.storage.reading import lock, open_own, read_json
from nevis_stream.storage.record import (
    CheckedLine,
    LogReader,
    append_checked,
    as_lines,
    refuse_other,
    seal,
    unseal,
)

SETTINGS, LOCK = "session.json", "lock"
_MOST_NAMED = 20  # asked samples in a message

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
Line = Mapping[str, Any]
Settings = TypeVar("Settings")


class Round(Protocol):
    """What was asked together."""

    @property
    def asked(self) -> Sequence[Any]:
        """The keys of what was asked, in order."""

    @property
    def answered(self) -> int:
        """The number of answers that there were then."""


AnyRound = TypeVar("AnyRound", bound=Round)


@dataclass(eq=False)
class History(Generic[AnyRound, Key, Answer]):
    """What the logs of a session say; it grows with them.

    Attributes:
      rounds: in their order.
      answers: by key; a correction replaces the answer before it.
      asked: all that was asked, in order.
      told: the keys of all answers and corrections, in the order in which they were told.
      needed: number of answers that the last round was made with.
    """

    rounds: list[AnyRound] = field(default_factory=list)
    answers: dict[Key, Answer] = field(default_factory=dict)
    asked: dict[Key, None] = field(default_factory=dict)
    told: list[Key] = field(default_factory=list)
    needed: int = 0

    @property
    def waiting(self) -> list[Key]:
        """What was asked and has no answer, in the order of the rounds."""
        return [key for key in list(self.asked) if key not in self.answers]


@dataclass(frozen=True)
class MessageTerms:
    """The terms of a session's messages.

    Attributes:
      session: "labelling session".
      answer: "label".
      asked: what was done with a sample, "drawn".
      busy: what a process that makes a round does, as of `storage.lock_exclusively`.
      again: what to do where answers are lost.
    """

    session: str
    answer: str
    asked: str
    busy: str
    again: str


class SessionLog(Generic[AnyRound, Key, Answer]):
    """The files of a session.

    Args:
      directory: of the session.
      rounds, answers: names of its files.
      terms: of its messages.
      parse_rounds: returns the rounds of a line, given those before it.
      parse_answers: returns the answers of a line, by key.

    Attributes:
      busy: is held while what the logs say grows; threads of a process share it.
    """

    def __init__(
        self,
        directory: Path,
        rounds: str,
        answers: str,
        terms: MessageTerms,
        parse_rounds: Callable[[Line, Sequence[AnyRound]], Sequence[AnyRound]],
        parse_answers: Callable[[Line], Mapping[Key, Answer]],
    ):
        remove_abandoned(directory)  # of a command that had done all but this
        self.directory, self.terms = directory, terms
        self.settings, self.rounds = directory / SETTINGS, directory / rounds
        self.answers = directory / answers
        self._parse_rounds, self._parse_answers = parse_rounds, parse_answers
        self._readers = LogReader(self.answers), LogReader(self.rounds)
        self._history: History[AnyRound, Key, Answer] = History()
        self.busy = threading.RLock()

    def start(
        self,
        content: Callable[[], str],
        refusal: str,
        prepare: Callable[[], None],
        others: Sequence[str] = (),
    ) -> None:
        """Begins a session, or leaves it as it is if it was begun with the same settings.

        Args:
          content: returns that of the file of settings, without its checksum; called last.
          refusal: as of `storage.record.refuse_other`.
          prepare: writes what the settings are about; called before they are written.
          others: names of further files that only a session has.

        Raises:
          BadInput: the directory has another session, or parts of one.
        """
        with lock_exclusively(self.directory / LOCK, "is starting a session here."):
            if not self.settings.exists():
                for name in (self.rounds.name, self.answers.name, *others):
                    if (self.directory / name).exists():
                        raise BadInput(
                            f"{self.directory}: contains the {name} of a session, but no"
                            f" {self.settings.name}. Put a copy of it back, or choose another"
                            " --out."
                        )
                prepare()
                write_file(self.settings, seal(content()).encode())
            found = self.read_settings(as_lines, "")
            refuse_other(self.settings, found, content(), refusal)

    def read_settings(self, parse: Callable[[dict[str, Any]], Settings], begin: str) -> Settings:
        """Returns the settings; those of an earlier version, which have no checksum, get one.

        Args:
          parse: makes them of a JSON object; a ValueError or TypeError says what is damaged.
          begin: the command that begins a session.

        Raises:
          BadInput: there is no session here, or its settings are damaged.
        """
        try:
            values, is_sealed = unseal(read_json(self.settings))
            settings = parse(values)
        except (FileNotFoundError, NotADirectoryError):
            raise BadInput(
                f"{self.directory}: there is no {self.terms.session} here. To begin one: {begin}"
            ) from None
        except (ValueError, TypeError) as error:
            again = "Put a copy of the file back."
            raise BadInput(f"{self.settings}: damaged ({error}). {again}") from None
        if not is_sealed:
            warnings.warn(
                f"{self.settings}: an earlier version wrote it, without a checksum, so that a"
                " changed number would not be noticed; from now on it has one.",
                stacklevel=2,
            )
            with contextlib.suppress(NevisStreamError, OSError):  # it may only be read
                write_file(self.settings, seal(as_lines(values)).encode())
        return settings

    def lock_rounds(self, wait: bool = False) -> AbstractContextManager[None]:
        """Returns a context that holds the lock of the rounds.

        Args:
          wait: whether to wait for another process that has it; else that is an error, `RunLocked`.
        """
        path = self.directory / LOCK
        return _hold(path) if wait else lock_exclusively(path, self.terms.busy)

    def lock_answers(self) -> AbstractContextManager[None]:
        """Returns a context that waits for the lock of the answers, and holds it."""
        return _hold(self.answers.with_suffix(".lock"))

    def read(self, complete: bool = True) -> History[AnyRound, Key, Answer]:
        """Returns what the logs say; files that are as they were are not read again.

        Args:
          complete: whether lost answers are an error; not where answers are recorded, which may
            bring them back.

        Raises:
          BadInput: a file is damaged, or lacks what the other one was made with.
        """
        with self.busy:
            try:
                return self._read_on(complete)
            except BaseException:
                self._forget()
                raise

    def _forget(self) -> None:
        self._history = History()
        for each in self._readers:
            each.restart()

    def _read_on(self, complete: bool) -> History[AnyRound, Key, Answer]:
        terms, is_behind = self.terms, True
        first = len(self._history.told)
        while is_behind:
            # rounds are looked at later: a round is there before its answers
            (answers, is_anew), (rounds, are_anew) = map(read_new, self._readers)
            history = self._history
            if is_anew and history.told or are_anew and history.rounds:  # a file was put back
                self._forget()
                first = 0
                continue
            for line in rounds:
                with report_damage(self.rounds, line.number):
                    for each in self._parse_rounds(line.values, history.rounds):
                        before = len(history.asked)
                        history.asked.update(dict.fromkeys(each.asked))
                        if len(history.asked) - before != len(each.asked):
                            raise ValueError(f"a sample is {terms.asked} a second time")
                        history.rounds.append(each)
                        history.needed = max(history.needed, each.answered)
            for line in answers:
                with report_damage(self.answers, line.number):
                    told = self._parse_answers(line.values)
                    history.answers.update(told)
                    history.told.extend(told)
            # rounds that were made in between know more answers
            is_behind = bool(answers or rounds) and len(history.answers) < history.needed
        if complete and len(history.answers) < history.needed:
            there = plural(len(history.answers), terms.answer)
            raise BadInput(
                f"{self.answers}: damaged (it has {there}; the last samples were {terms.asked}"
                f" with {history.needed}). Put a copy of the file back, or {terms.again}."
            )
        if not all(key in history.asked for key in history.told[first:]):
            lost = len(history.answers.keys() - history.asked.keys())
            raise BadInput(
                f"{self.rounds}: damaged (the rounds of {plural(lost, 'sample')} with"
                f" {'an' if terms.answer[0] in 'aeiou' else 'a'} {terms.answer} are missing). Put a"
                " copy of the file back."
            )
        return history

    def add_round(self, line: Mapping[str, Any]) -> None:
        """Appends a round; the caller holds `lock_rounds`."""
        append_checked(self.rounds, line)

    def add_answers(self, line: Mapping[str, Any]) -> None:
        """Appends answers; the caller holds `lock_answers`."""
        append_checked(self.answers, line)

    def select_new(
        self,
        given: Mapping[str, Answer],
        keys: Mapping[str, Key],
        show_value: Callable[[Answer], str],
        place: Callable[[str], str],
        correct: bool,
        nothing: str = "Nothing of this file was recorded.",
    ) -> dict[str, Answer]:
        """Returns which of some answers are new or changed; the same rules hold for all sessions.

        Args:
          given: the answers, by sample.
          keys: the key of each sample that there is, by sample.
          show_value: returns an answer as a person types it.
          place: returns where the answer of a sample stands, for messages.
          correct: whether an answer may replace another one of the same sample.
          nothing: what messages say of the other answers that came with a wrong one.

        Raises:
          BadInput: a sample is unknown, was not asked, or has another answer already.
        """
        history, terms, new = self.read(complete=False), self.terms, {}
        for sample, answer in given.items():
            if sample not in keys:
                names = {key: name for name, key in keys.items()}
                asked = [names[key] for key in history.asked if key in names]
                valid = unknown("sample", sample, _shorten(asked))
                raise BadInput(f"{place(sample)}: {valid} {nothing}")
            key = keys[sample]
            if key not in history.asked:
                raise BadInput(
                    f"{place(sample)}: sample {sample!r} was not {terms.asked}, so its"
                    f" {terms.answer} cannot be used; {terms.answer}s of other samples would bias"
                    f" the estimates. Remove its row. {nothing}"
                )
            if key in history.answers:
                before = history.answers[key]
                if before == answer:
                    continue
                if not correct:
                    raise BadInput(
                        f"{place(sample)}: sample {sample!r} is {show_value(answer)}, but"
                        f" {show_value(before)} was recorded before. {nothing} If the new"
                        f" {terms.answer} is right, repeat the command with --correct."
                    )
            new[sample] = answer
        return new


def read_new(log: LogReader) -> tuple[list[CheckedLine], bool]:
    """Returns what `LogReader.read` does.

    Raises:
      BadInput: a line is not as it was written.
    """
    lines, is_anew = log.read()
    for line in lines:
        if line.problem:
            raise BadInput(
                f"{log.file}, line {line.number}: damaged ({line.problem}). Put a copy of the file"
                " back."
            )
    if lines and not lines[-1].checked:
        warnings.warn(
            f"{log.file}: an earlier version wrote it, without checksums, so that a changed number"
            " would not be noticed; from the next line on it has them.",
            stacklevel=2,
        )
    return lines, is_anew


@contextlib.contextmanager
def report_damage(file: Path, line: int) -> Iterator[None]:
    """Turns errors of reading a line that is not as it was written into BadInput that names it."""
    try:
        yield
    except BadInput:
        raise  # of another file
    except (
        *(ValueError, KeyError, TypeError, IndexError, AttributeError),
        *(OverflowError, RecursionError),
    ) as error:
        raise BadInput(f"{file}, line {line}: damaged ({error}).") from None


@contextlib.contextmanager
def _hold(path: Path) -> Iterator[None]:
    """Holds a lock, and waits for it; also threads of one process wait for each other."""
    with open_own(path) as file:
        lock(file, path, fcntl.LOCK_EX)
        yield


def _shorten(names: Sequence[str]) -> Sequence[str]:
    return names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], "…"]
