"""Runs that differ only in their seed, mean and spread over them, and short names of methods."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nevis_stream.analysis.points import point
from nevis_stream.analysis.runs import Run

MARK = "†"
_NAME = re.compile(r"(\S.*?) \((stand-in: .*)\)")


def shorten_name(name: str) -> str:
    """Returns the name with a mark instead of its note on a stand-in.

    >>> shorten_name("pt_ft (stand-in: pre-trained on omniglot (stream omniglot), not ImageNet)"), shorten_name("ft_d")
    ('pt_ft†', 'ft_d')
    """  # noqa: E501
    match = _NAME.fullmatch(name)
    return match[1] + MARK if match else name


def shorten_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the short name of each; the whole name of those whose short names are the same."""
    shortened = {name: shorten_name(name) for name in names}
    counts = Counter(shortened.values())
    return {name: text if counts[text] == 1 else name for name, text in shortened.items()}


def list_notes(names: Iterable[str]) -> list[str]:
    """Returns the notes that the marks refer to, one text for each learner that has one.

    >>> list_notes(["ft_d", "pt_ft (stand-in: pre-trained on omniglot, not ImageNet)"])
    ['pt_ft†: stand-in: pre-trained on omniglot, not ImageNet']
    """
    matches = map(_NAME.fullmatch, dict.fromkeys(names))
    return [f"{match[1]}{MARK}: {match[2]}" for match in matches if match]


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation (n - 1 in the denominator; NaN for n < 2) and n."""

    mean: float
    std: float
    n: int


@dataclass(frozen=True)
class SeedGroup:
    """Runs that differ only in their seed.

    Attributes:
      runs: by rising seed.
      apart: how it differs from other groups with the same learner and budget; empty if there are
        none.
    """

    runs: tuple[Run, ...]
    apart: str = ""

    @property
    def learner(self) -> str:
        """The learner's name."""
        return self.runs[0].header.learner

    @property
    def budget(self) -> str:
        """The budget preset's name; empty where the learner has none."""
        return self.runs[0].header.budget or ""

    @property
    def label(self) -> str:
        """Learner (in short if it is a stand-in), budget and `apart`: unique among the groups that
        one call of `group_by_seed` returns.
        """
        return " · ".join(filter(None, (shorten_name(self.learner), self.budget, self.apart)))


def spread(values: Sequence[float]) -> Spread:
    """Returns mean and sample standard deviation of the values that are not NaN.

    A single value is returned as it is (an integer stays exact); without any the mean is NaN.

    >>> spread([0.25, 0.5, 0.75])
    Spread(mean=0.5, std=0.25, n=3)
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Spread(math.nan, math.nan, 0)
    if len(known) == 1:
        return Spread(known[0], math.nan, 1)
    floats = [float(value) for value in known]
    return Spread(statistics.fmean(floats), statistics.stdev(floats), len(known))


def group_by_seed(runs: Sequence[Run]) -> list[SeedGroup]:
    """Groups runs that differ only in their seed, ordered by learner, cost and budget.

    Runs differ only in their seed if the rest of their config.json is equal; a run without a
    readable config.json is a group of its own.
    """
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        head = (run.header.learner, run.header.budget)
        rest = run.path if run.settings is None else tuple(run.settings.items())
        groups.setdefault((*head, rest), []).append(run)
    members = [sorted(group, key=lambda run: run.header.seed) for group in groups.values()]
    members.sort(key=_make_sort_key)
    firsts = [group[0] for group in members]
    return [SeedGroup(tuple(group), _apart(group[0], firsts)) for group in members]


def _learner_budget(run: Run) -> tuple[str, str]:
    return run.header.learner, run.header.budget or ""


def _list_shown_names(run: Run) -> tuple[str, str]:
    learner, budget = _learner_budget(run)
    return shorten_name(learner), budget


def _make_sort_key(group: list[Run]) -> tuple:
    learner, budget = map(_natural, _learner_budget(group[0]))
    cost = spread([point(run.ledger).paper_total for run in group]).mean
    return learner, math.inf if math.isnan(cost) else cost, budget


def _natural(text: str) -> list[tuple[int, int | str]]:
    parts = re.split(r"([0-9]+)", text.casefold())
    return [(1, int(part)) if part.isdecimal() else (0, part) for part in parts]


def _apart(run: Run, firsts: list[Run]) -> str:
    same = [other for other in firsts if _list_shown_names(other) == _list_shown_names(run)]
    return _difference(run, same) if len(same) > 1 else ""


def _difference(run: Run, same: list[Run]) -> str:
    if any(other.settings is None for other in same):
        return run.name
    names = sorted({name for other in same for name in other.settings})
    differing = [n for n in names if len({other.settings.get(n) for other in same}) > 1]
    if len(differing) > 3:  # three, which a sweep varies together, can still be read
        return f"config {run.header.config_hash[:8]}"
    short = [name.removeprefix("learner.") for name in differing]
    values = [run.settings.get(name, "unset") for name in differing]
    return ", ".join(f"{name}={value}" for name, value in zip(short, values, strict=True))
