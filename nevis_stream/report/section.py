"""The runs of one stream under one protocol: what the parts of the page show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from nevis_stream.analysis.answering import is_answering, rule_name
from nevis_stream.analysis.consistency import events_differ
from nevis_stream.analysis.differences import Comparison
from nevis_stream.analysis.methods import MethodPoint, method_points
from nevis_stream.analysis.pairs import against_reference
from nevis_stream.analysis.points import describe_progress
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, by_seed
from nevis_stream.analysis.stand_ins import notes
from nevis_stream.report.error_table import ErrorRow, error_rows
from nevis_stream.report.styles import Style, assign
from nevis_stream.run_directory.records import Header
from nevis_stream.vocabulary import PROTOCOLS

T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """The runs of one stream (by digest) and protocol.

    Attributes:
      number: position in the page, from 1; ids in the page end with it.
      runs: usable runs, unfinished ones too.
    """

    number: int
    runs: Sequence[Run]
    _values: dict[Callable, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def header(self) -> Header:
        """The `run` record of the first run."""
        return self.runs[0].header

    @property
    def title(self) -> str:
        """The heading."""
        name = self.header.stream
        if is_answering(self.runs[0]):  # the name does not contain the default rule
            words = [word for word in name.split(",") if not word.startswith("rule=")]
            name = f"{','.join(words)}, rule {rule_name(self.runs[0])}"
        return f"Stream {name}, protocol {self.header.protocol}"

    @property
    def judged_text(self) -> str:
        """What the protocol judges, in words."""
        meta_split, split = PROTOCOLS[self.header.protocol]
        return f"errors on the {split} split of the meta-{meta_split} tasks"

    @cached_property
    def groups(self) -> list[SeedGroup]:
        """The runs by method."""
        return by_seed(self.runs)

    @cached_property
    def styles(self) -> dict[str, Style]:
        """How each method is drawn, by label."""
        return assign(self.groups)

    @cached_property
    def methods(self) -> list[MethodPoint]:
        """The point of each method."""
        return method_points(self.groups)

    @cached_property
    def against_reference(self) -> list[Comparison]:
        """Each method compared with its reference."""
        return against_reference(self.groups)

    @cached_property
    def stand_ins(self) -> list[str]:
        """The meaning of the marks at names of learners."""
        return notes(group.learner for group in self.groups)

    @property
    def judged(self) -> int:
        """Number of judged tasks, as far as the runs have come."""
        return max(point.judged for method in self.methods for point in method.points)

    @property
    def unfinished(self) -> list[tuple[Run, str]]:
        """Runs that have not reached their end, and how far they are."""
        return [
            (run, describe_progress(run.ledger)) for run in self.runs if not run.ledger.complete
        ]

    @cached_property
    def events_differ(self) -> bool:
        """Whether a rule chose other events in some of the runs."""
        ledgers = [run.ledger for run in self.runs if run.header.rule is not None]
        return bool(ledgers) and events_differ(ledgers)

    @cached_property
    def tasks(self) -> list[ErrorRow]:
        """Every task that a run has trained, in stream order, with each method's error."""
        return error_rows(self.groups)

    def once(self, compute: Callable[["Section"], T]) -> T:
        """Returns `compute(self)`, computed at the first call only: a part's html, tables and
        figures share it.
        """
        if compute not in self._values:
            self._values[compute] = compute(self)
        return self._values[compute]
