"""What a log of an evaluation says of itself; every reader of logs fills in the same record."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.arguments import redact
from nevis_stream.storage.reading import open_text, parse_json, read_json
from nevis_stream.storage.record import show_value

FAILED = "samples that ended in an error"  # a kind of remark
_MOST_NAMED = 5
JSONL = re.compile(r".\.jsonl$")


@dataclass
class SharedFiles:
    """What reading one log shares with reading the others.

    Attributes:
      grades: numbers of grades, for example {"A": 1}.
      contents: of the JSON files that were read, by path; several logs may need one.
    """

    grades: Mapping[str, float] = field(default_factory=dict)
    contents: dict[Path, Any] = field(default_factory=dict)

    def read_content(self, path: Path) -> Any:
        """Returns the content of a JSON file, which is read once.

        Raises:
          BadInput: it cannot be read.
        """
        if path not in self.contents:
            try:
                self.contents[path] = read_json(path)
            except (OSError, ValueError) as error:
                raise BadInput(f"{path}: cannot be read as JSON ({error}).") from None
        return self.contents[path]

    def read_object(self, path: Path) -> dict[str, Any]:
        """Returns the JSON object in a file, {} if there is no such file.

        Raises:
          BadInput: the file cannot be read, or is no JSON object.
        """
        content = self.read_content(path) if path.is_file() else {}
        if not isinstance(content, dict):
            raise BadInput(f"{path}: is not a JSON object, so it has no results.")
        return content


@dataclass(frozen=True)
class Format:
    """A kind of log.

    Attributes:
      name: of the program that writes such logs.
      files: how its files are called, for people.
      pattern: of the names of its files.
      read: returns the logs in a file.
      is_one: whether a file of such a name is one; None: every one is.
    """

    name: str
    files: str
    pattern: re.Pattern[str]
    read: Callable[[Path, SharedFiles], Sequence["Log"]]
    is_one: Callable[[Path], bool] | None = None


class Skipped(NamedTuple):
    """A value that is not a number, and its place, for example "line 3"."""

    value: Any
    place: str


class Reported(NamedTuple):
    """A score that the log itself reports, the number of samples behind it (None: not stated), and
    how it was aggregated if not by the mean.
    """

    score: float
    samples: int | None
    aggregation: str = "mean"


@dataclass
class Log:
    """The values of one model on one task.

    Attributes:
      path: of the file.
      model: its name.
      task: its name.
      date: as text; later logs have greater ones.
      identity: what makes another model of it under the same name: revision, adapter, reasoning
        effort and the like; None if the log does not say.
      settings: how it was evaluated: number of shots, prompt template, generation arguments; None
        if the log does not say.
      truncation: why it has not all samples, for example "--limit=5"; "" if it has, None if the log
        does not say.
      size: number of samples of the task, if the log says it.
      values: by metric, in the order of the file, and sample: value and place (for example "line
        3").
      hashes: by sample, of its content, where the log has them.
      skipped: by metric and sample, values that are not numbers.
      failed: samples that ended in an error, and the place of each.
      reported: by metric, the score in the log.
      higher_is_better: by metric, where the log says it.
      ranges: by metric, low and high, where the log says it.
      remarks: further lines for people: a kind of remark, and an instance of it.
      grades: numbers of grades, for example {"A": 1}.
      prices: by unit and sample, what the answer of each epoch cost.
    """

    path: Path
    model: str
    task: str
    date: str
    identity: dict[str, str] | None = None
    settings: dict[str, str] | None = None
    truncation: str | None = None
    size: int | None = None
    values: dict[str, dict[str, tuple[float, str]]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, dict[str, Skipped]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    reported: dict[str, Reported] = field(default_factory=dict)
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    remarks: list[tuple[str, str]] = field(default_factory=list)
    grades: Mapping[str, float] = field(default_factory=dict)
    prices: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model, self.task = redact(self.model), redact(self.task)

    @property
    def file(self) -> str:
        """The name of the file as it is kept; that of old logs has the arguments of the model."""
        return redact(self.path.name)

    def add_price(self, unit: str, sample: str, amount: Any, per: float = 1) -> None:
        """Adds what an answer cost, if it is a number above 0. One `unit` is `per` of the amounts'
        unit, for example seconds are 1000 milliseconds.
        """
        if isinstance(amount, int | float) and 0 < amount < math.inf:
            self.prices.setdefault(unit, {}).setdefault(sample, []).append(amount / per)

    def add(self, metric: str, sample: str, value: Any, place: str) -> None:
        """Adds a value; one that is not a number is skipped.

        Raises:
          BadInput: the sample has a value of this metric.
        """
        if sample in self.values.get(metric, ()) or sample in self.skipped.get(metric, ()):
            raise BadInput(f"{self.path}, {place}: sample {sample} has {metric} twice.")
        if isinstance(value, str):
            value = self.grades.get(value, value)
        try:
            number = float(value) if isinstance(value, bool | int | float) else math.nan
        except OverflowError:
            raise BadInput(f"{self.path}, {place}: {metric} is {show_value(value)}.") from None
        if math.isnan(number):
            self.skipped.setdefault(metric, {})[sample] = Skipped(value, place)
            return
        self.values.setdefault(metric, {})[sample] = number, place

    @property
    def samples(self) -> set[str]:
        """The samples of which the log has a value, a number or not."""
        return set().union(*self.values.values(), *self.skipped.values(), self.failed)

    def add_hash(self, sample: str, content: str, place: str, name: str) -> None:
        """Adds the hash of a sample's content; `place` and `name` are those of the hash in the
        file, for messages.

        Raises:
          BadInput: the sample has another one.
        """
        if self.hashes.setdefault(sample, content) != content:
            raise BadInput(f"{self.path}, {place}: sample {sample} has another {name} before.")

    def describe(self) -> str:
        """Returns file, number of samples and truncation as text, for people."""
        count = len(self.samples)
        of = f" of {self.size:,}" if self.size and self.size != count else ""
        status = f", {self.truncation}" if self.truncation else ""
        samples = f"{count:,}{of} sample{'s'[: (self.size or count) != 1]}"
        return f"{redact(self.path.parent.name)}/{self.file} ({samples}{status})"


def read_json_lines(log: Log) -> Iterator[tuple[str, Any]]:
    """Yields place and content of each line of a log; if the last one is not complete, the log
    gains this as its `truncation`.

    Raises:
      BadInput: a line is not JSON.
    """
    with open_text(log.path, errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield f"line {number}", parse_json(line)
                except ValueError as error:
                    if number > 1 and not line.endswith("\n"):
                        log.truncation = f"cut short in line {number:,}"
                        return
                    raise BadInput(f"{log.path}, line {number}: is not JSON ({error}).") from None


def read_json_array(log: Log, content: Any) -> Iterator[tuple[str, Any]]:
    """Yields place and content of each element of a log that is one JSON array.

    Raises:
      BadInput: it is something else.
    """
    if not isinstance(content, list):
        raise BadInput(f"{log.path}: is not a JSON array of samples.")
    yield from ((f"sample {number}", each) for number, each in enumerate(content, start=1))


def read_beginning(path: Path, size: int = 1 << 16) -> str:
    """Returns the beginning of a text file, without blanks before it; "" if it cannot be read."""
    try:
        with open_text(path, errors="replace") as file:
            return file.read(size).lstrip("\ufeff \t\r\n")
    except OSError:
        return ""


def get_object(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the JSON object that another one has under a name, {} if it has none."""
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def summarise_remarks(remarks: Iterable[tuple[str, str]]) -> list[str]:
    """Returns a line for people for each kind of remark, which names the first few."""
    kinds: dict[str, list[str]] = {}
    for kind, text in remarks:
        kinds.setdefault(kind, []).append(text)
    return [f"{kind}: {name_first(texts)}" for kind, texts in kinds.items()]


def name_first(texts: Sequence[str]) -> str:
    """Returns the first few texts, and the number of the others."""
    others = len(texts) - _MOST_NAMED
    return "; ".join(texts[:_MOST_NAMED]) + (f"; and {others:,} more" if others > 0 else "")
