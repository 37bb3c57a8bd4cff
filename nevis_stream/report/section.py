"""Everything that the page says about the runs of one stream under one protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from nevis_stream.analysis.curves import learning_curves as curves_of
from nevis_stream.analysis.judged import JUDGED
from nevis_stream.analysis.points import unfinished
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, by_seed
from nevis_stream.analysis.summary import (
    MethodPoint,
    MethodRegret,
    method_points,
    method_regret,
)
from nevis_stream.report import figures, run_files
from nevis_stream.report.error_table import ErrorRow, error_rows
from nevis_stream.report.phase_table import PhaseRow, phase_columns, phase_rows
from nevis_stream.report.plane import drawable
from nevis_stream.report.styles import Style, assign


@dataclass(frozen=True)
class Section:
    """The runs of one stream (by digest) and protocol, and what the template asks of them.

    Attributes:
      number: position in the page, from 1; figures' ids begin with it.
      runs: usable runs, unfinished ones too.
    """

    number: int
    runs: Sequence[Run]

    @property
    def header(self) -> dict:
        """The `run` record of the first run."""
        return self.runs[0].header

    @property
    def judged_text(self) -> str:
        """What the protocol judges, in words."""
        meta_split, split = JUDGED[self.header["protocol"]]
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

    @property
    def judged(self) -> int:
        """Number of judged tasks, as far as the runs have come."""
        return max(point.judged for method in self.methods for point in method.points)

    @property
    def unfinished(self) -> list[tuple[Run, str]]:
        """Runs that have not reached their end, and how far they are."""
        return [(run, unfinished(run.ledger)) for run in self.runs if not run.ledger.complete]

    @cached_property
    def environment(self) -> list[tuple[str, str]]:
        """Versions and devices of all runs."""
        return run_files.environment(self.runs)

    @property
    def undrawn(self) -> list[str]:
        """Methods that have no place in the figure of error against cFLOP."""
        return [method.group.label for method in self.methods if not drawable(method)]

    @cached_property
    def plane(self) -> Markup | None:
        """The figure of error against cFLOP; None where no method has a point."""
        return figures.plane(self.methods, self.styles, f"f{self.number}")

    @cached_property
    def regrets(self) -> Mapping[str, Sequence[MethodRegret]]:
        """Regret curves by panel title; the whole stream where it is more than the judged part."""
        panels = {f"Judged tasks (n = {self.judged})": self._regrets(judged_only=True)}
        whole = self._regrets(judged_only=False)
        tasks = max((len(curve.task_ids) for curve in whole), default=0)
        if tasks > self.judged:
            panels[f"Whole stream (n = {tasks})"] = whole
        return panels

    @cached_property
    def regret_plot(self) -> Markup | None:
        """The figure of regret; None where no method but Indep has a curve."""
        return figures.regret(self.regrets, self.styles, f"r{self.number}")

    @property
    def regret_legend(self) -> list[tuple[Style, str]]:
        """Style and text of each method that has a regret curve."""
        judged = next(iter(self.regrets.values()))
        drawn = [curve for curve in judged if curve.n]
        return [(self.styles[c.group.label], f"{c.group.label} (n = {c.n})") for c in drawn]

    @property
    def run_legend(self) -> list[tuple[Style, str]]:
        """Style and text of each method that has learning curves, with the number of its runs."""
        told = [g for g in self.groups if any(any(curves_of(r.ledger).values()) for r in g.runs)]
        return [(self.styles[g.label], f"{g.label} (n = {len(g.runs)})") for g in told]

    @property
    def regret_reasons(self) -> list[str]:
        """Why curves are missing or end early, and how references differ."""
        found = [reason for curves in self.regrets.values() for c in curves for reason in c.reasons]
        return list(dict.fromkeys(found))

    @cached_property
    def error_rows(self) -> list[ErrorRow]:
        """The per-task table."""
        return error_rows(self.groups)

    @property
    def error_gaps(self) -> list[tuple[str, str]]:
        """(task id, reason) of the cells that finished runs leave without a value."""
        cells = [(row.task_id, cell) for row in self.error_rows for cell in row.cells]
        return [(task, cell.reason) for task, cell in cells if cell.gap not in ("", "partial")]

    @property
    def phase_columns(self) -> list[str]:
        """Names of the phases."""
        return phase_columns(self.runs)

    @cached_property
    def phase_rows(self) -> list[PhaseRow]:
        """The table of cost by phase."""
        return phase_rows(self.groups, self.phase_columns)

    @cached_property
    def curves(self) -> list[tuple[str, Markup | None]]:
        """Every task's learning curves as SVG; None where no run tells any."""
        tasks = [row.task_id for row in self.error_rows]
        return figures.learning_curves(tasks, self.groups, self.styles)

    @cached_property
    def thumbnails(self) -> list[tuple[ErrorRow, str | None]]:
        """Every task's row of images as a `data:` address."""
        return [(row, run_files.thumbnail(row.task_id, self.runs)) for row in self.error_rows]

    def _regrets(self, judged_only: bool) -> list[MethodRegret]:
        others = [group for group in self.groups if not figures.is_reference(group)]
        return [method_regret(group, self.runs, judged_only) for group in others]
