"""Whether higher or lower values of a metric are better, and what range it has, where a file does
not state it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import facts
from nevis_stream.evaluation_cache.facts import DIRECTION, METRIC, RANGE, UNBOUNDED
from nevis_stream.evaluation_cache.names import join_words
from nevis_stream.evaluation_cache.tables import RawTable
from nevis_stream.evaluation_cache.texts import list_names

NONE: Literal["none"] = "none"
ValueRange = tuple[float, float] | Literal["none"]
ALL = "all"
_FEW = 3  # values of a model from which its scale can be told
# metrics of which lower values are better; those of the first line have no upper bound
_UNBOUNDED = frozenset(
    (
        *("wer", "cer", "ter", "word_error_rate", "character_error_rate", "latency"),
        *("perplexity", "ppl", "word_perplexity", "byte_perplexity", "bits_per_byte", "bpb"),
        *("mae", "mse", "rmse", "mean_absolute_error", "mean_squared_error"),
        *("loss", "log_loss", "nll", "cross_entropy"),
    )
)
_LOWER = _UNBOUNDED | frozenset(("brier", "brier_score", "error", "error_rate", "ece"))


@dataclass(frozen=True)
class Ranges:
    """What a user says of the ranges of values that a file does not state.

    Attributes:
      default: of all values without a name below; None: 0 to 1; "none": metrics without bounds.
      named: by task (data set) or metric, with or without its filter.
    """

    default: ValueRange | None = None
    named: Mapping[str, ValueRange] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: "ValueRange | Mapping[str, ValueRange] | Ranges | None") -> "Ranges":
        """Returns ranges, given one for all values, or several by name, "" for all others."""
        if isinstance(ranges, Ranges):
            return ranges
        if isinstance(ranges, Mapping):
            named = {name: each for name, each in ranges.items() if name}
            return cls(ranges.get(""), named)
        return cls(ranges)

    def find(self, dataset: str, metric: str) -> ValueRange | None:
        """Returns the range of a metric on a data set; None if none is said.

        Raises:
          BadInput: data set and metric have different ones.
        """
        metrics = [name for name in (metric, metric.partition(",")[0]) if name in self.named]
        names = [*metrics[:1], *([dataset] if dataset in self.named else [])]
        if len({self.named[name] for name in names}) > 1:
            raise BadInput(
                f"--range: {metric} on {dataset} has two ranges, of {names[0]} and of {names[1]}."
            )
        return self.named[names[0]] if names else self.default

    def check(self, path: Path, provenances: Iterable[Mapping[str, Any]]) -> None:
        """Refuses a name that no sample has.

        Raises:
          BadInput: the message lists the names.
        """
        valid = set()
        for dataset, metric in {
            (facts.dataset(each), str(each.get(METRIC) or "")) for each in provenances
        }:
            valid |= {dataset, metric, metric.partition(",")[0]}
        for name in self.named:
            if name not in valid:
                raise BadInput(
                    f"{path}: --range={name}=…: {unknown('task or metric', name, valid - {''})}"
                )


def is_unbounded(metric: str) -> bool:
    """Whether a metric has no bounds, by its name."""
    return _plain(metric) in _UNBOUNDED


def _plain(metric: str) -> str:
    """Returns a metric's name without its filter, in lower case, with underscores."""
    return metric.partition(",")[0].strip().lower().replace(" ", "_").replace("-", "_")


def state(
    path: Path, raw: RawTable, lower_is_better: Sequence[str], by_name: bool = True
) -> list[str]:
    """States the direction of samples that have none, and returns lines for people.

    Args:
      path: of the file, for messages.
      raw: its content; the provenance of samples gains the direction.
      lower_is_better: metrics or data sets, or "all".
      by_name: whether well-known names such as word error rate say which direction is better.

    Raises:
      BadInput: no sample is of a metric or data set, or the file states another direction.
    """
    named: dict[str, None] = {}
    stated = {str(each.get(METRIC) or "") for each in raw.sample_provenance}
    wanted = join_words(lower_is_better, stated)
    for provenance in raw.sample_provenance:
        metric = str(provenance.get(METRIC) or "")
        names = {ALL, metric, metric.partition(",")[0], facts.dataset(provenance)} - {""}
        if names & set(wanted):
            if provenance.get(DIRECTION):
                raise BadInput(
                    f"{path}: --lower_is_better={','.join(wanted)}, but the file says that"
                    f" higher values of {metric or 'this metric'} are better."
                )
            provenance[DIRECTION] = False
        elif by_name and DIRECTION not in provenance and _plain(metric) in _LOWER:
            provenance[DIRECTION] = False
            named.setdefault(metric)
    valid = sorted({*stated, *map(facts.dataset, raw.sample_provenance), ALL} - {""})
    valid += [name.partition(",")[0] for name in valid if "," in name]
    for name in wanted:
        if name not in valid:
            raise BadInput(
                f"--lower_is_better={name}: {unknown('metric or data set', name, valid)}"
            )
    if not named:
        return []
    return [
        f"by its name, lower values of {list_names(named)} are better; a column `{DIRECTION}` says"
        " otherwise"
    ]


def scale(raw: RawTable, ranges: Ranges) -> list[str]:
    """Gives samples of metrics without bounds a scale that includes the file's values, and returns
    lines for people.

    Args:
      raw: the content of a file; the provenance of samples gains the scale.
      ranges: that the user states.
    """
    kinds: dict[tuple[str, str], list[int]] = {}
    for k, provenance in enumerate(raw.sample_provenance):
        if not any(name in provenance for name in RANGE):
            kind = facts.dataset(provenance), str(provenance.get(METRIC) or "")
            kinds.setdefault(kind, []).append(k)
    said = {kind: ranges.find(*kind) for kind in kinds}
    unbounded = {kind for kind in kinds if said[kind] is None and is_unbounded(kind[1])}
    kinds = {k: c for k, c in kinds.items() if k in unbounded or said[k] == NONE}
    for columns in kinds.values():
        values = raw.values[:, columns]
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        # twice the values: those of later models lie in it too
        low, high = 2 * min(0.0, float(values.min())), 2 * max(0.0, float(values.max()))
        ends = {RANGE[0]: low, RANGE[1]: high if high > low else low + 1, UNBOUNDED: True}
        for k in columns:
            raw.sample_provenance[k].update(ends)
    metrics = dict.fromkeys(metric or "these scores" for _, metric in kinds)
    if not metrics:
        return []
    lines = [
        f"{list_names(metrics)}: without bounds, so no interval that needs them; --range=LOW,HIGH"
        " states a range"
    ]
    if ranges.default == NONE and len(metrics) > 1:
        lines.append(
            f"--range=none was taken for each of these {len(metrics)} metrics; where one has"
            " bounds, state them: --range=METRIC=LOW,HIGH"
        )
    return lines


def percentages(
    path: Path, raw: RawTable, kinds: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[str]:
    """Returns lines for people about models, and samples, whose values are from 0 to 1 in a range
    from 0 to 100.

    Args:
      path: of the file, for messages.
      raw: its content.
      kinds: int64[n], the number of each sample's data set and metric.
      low, high: float64[n], the ranges.

    Raises:
      BadInput: other models of the file have larger ones.
    """
    doubtful: dict[str, float] = {}
    for kind in np.unique(kinds[(low == 0) & (high == 100)]).tolist():
        values = raw.values[:, kinds == kind]
        known = ~np.isnan(values)
        most = np.where(known, values, 0).max(axis=1)
        small = (most <= 1) & (known & (values > 0) & (values < 1)).any(axis=1)
        sure = small & (known.sum(axis=1) >= _FEW)
        if sure.any() and most.max() > 1:
            i, other = int(sure.argmax()), int(most.argmax())
            k = int(np.flatnonzero(kinds == kind)[np.where(known[i], values[i], 0).argmax()])
            raise BadInput(
                f"{path}{raw.place(i, k)}: the values of model {raw.models[i]!r} are up to"
                f" {most[i]:g}, those of {raw.models[other]!r} up to {most[other]:g}, in a range"
                " from 0 to 100: is one a share and the other a percentage? Write both in one"
                " range. If they are right, import this model from a file of its own."
            )
        for i in np.flatnonzero(small).tolist():
            name = facts.dataset(raw.sample_provenance[int(np.argmax(kinds == kind))])
            doubtful[f"{raw.models[i]}{f' on {name}' * bool(name)}"] = float(most[i])
        between = ((values > 0) & (values < 1) | ~known).all(axis=0) & (known.sum(axis=0) > 1)
        if not small.all():
            for k in np.flatnonzero(kinds == kind)[between].tolist():
                doubtful[f"sample {raw.samples[k]}"] = float(np.nanmax(raw.values[:, k]))
    if not doubtful:
        return []
    return [
        "percentages or shares? In a range from 0 to 100, all values are at most"
        f" {max(doubtful.values()):g} of {list_names(list(doubtful))}"
    ]
