"""The record of additions to a cache, one line for each in `additions.jsonl` of its directory."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from nevis_stream.errors import DamagedCache, unknown
from nevis_stream.evaluation_cache import records
from nevis_stream.evaluation_cache.index import INDEX, Index
from nevis_stream.queries.oracle import HOLDS_FOR, NOT_STATED, SAMPLES, Estimate
from nevis_stream.queries.prices import UNITS, Spending
from nevis_stream.queries.samples import Part
from nevis_stream.storage import write_file
from nevis_stream.storage.record import (
    Record,
    append_checked,
    check_choice,
    check_content,
    check_object,
    check_string,
    check_whole,
    number,
    read_checked,
)

ADDITIONS = "additions.jsonl"
KINDS = ("model", "samples")
_COSTS = ("flops_spent", "flops_saved", "flops_method")
Flops = Annotated[float, number(-1e36, 1e36)] | None
Proportion = Annotated[float, number(-1, 2)] | None  # in [0, 1] but for rounding

Unit = Annotated[str, check_choice("unit", UNITS)] | None
Amount = Annotated[float, number(0, 1e36)] | None

HoldsFor = Annotated[str, check_choice("holds_for", HOLDS_FOR)] | None


class AddedModel(Protocol):
    """What a record of a new model is made of; see `dynamic_evaluation.new_models.NewModel`."""

    name: str
    part: Part
    estimate: Estimate
    ranks: tuple[int | None, int | None, int | None]
    made_by: Mapping[str, Any]
    fit: str
    known: int
    costs: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Addition(Record):
    """The record of one addition.

    Attributes:
      kind: "model" or "samples".
      name: the model's id, or the number of samples, for example "9 samples".
      method, budget, seed: how it was evaluated.
      models, samples: the size of the cache that the method learned from.
      asked: number of observed cells, including those that the cache had before.
      accuracy, low, high: for a model, the estimated mean over all samples with a 95% interval;
        None where there is none.
      rank, rank_low, rank_high: for a model, its place by accuracy among the known models; 1 is the
        best, which has the lowest mean if `lower` is true; None where too many samples have no
        answer for the estimate to stand for all.
      reason: why a model has no interval; None if it has one.
      flops_spent: FLOPs of the observed cells, and of the method. Cells that the cache had before
        count at the price per cell of a whole split. None if the price of an answer is unknown.
      flops_saved: FLOPs of observing every cell, less those spent; below 0 if the method, or asking
        few cells at a time, cost more. None if the price of an answer is unknown.
      flops_method: FLOPs of the method itself, part of those spent: fit, cross-validation,
        selection and prediction. Of models that were added together the first pays for the fit, as
        if one were added after the other; in records of earlier versions they shared it. None in
        records of still earlier ones, which did not count them.
      fit: the key of the stored fit that the method used (see `dynamic_evaluation.fits`).
      choice: of records of earlier versions, which chose a method by cross-validation: the key of
        that choice; None if the method was given.
      dataset: the data set that all this is about, where data sets differ in direction or range;
        None: all samples.
      lower: true if lower values are better; None: higher ones are.
      failed: number of samples that were asked without an answer; None: 0.
      errata: the digest of the cache's errata when the record was made; None if there were none. If
        it is another now, the record rests on values that no longer count.
      holds_for: for a model, for whom the interval holds (see `oracle.Estimate`); None in records
        of earlier versions, which did not state it.
      note: what else is to be known of the estimate, for people.
      other, other_low, other_high: the estimate that does not hold for whom `holds_for` says (see
        `oracle.Estimate`), where it differs; else None.
      unit: of a budget that is a sum of prices of samples; None: it is a number of samples.
      priced_budget: what might be spent, in `unit`; `budget` is the number of samples that it was
        planned for.
      spent, saved: in `unit`, the prices of the samples that gave an answer, and of all others.
      population: what the mean is over, in words, if not over these samples; None: these.
    """

    kind: Annotated[str, check_choice("kind", KINDS)]
    name: Annotated[str, check_string]
    method: str
    budget: int
    seed: Annotated[int, check_whole(-(2**63), 2**63 - 1)]
    models: int
    samples: int
    asked: int
    accuracy: Proportion = None
    low: Proportion = None
    high: Proportion = None
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    flops_spent: Flops = None
    flops_saved: Flops = None
    reason: str | None = None
    flops_method: Annotated[int, check_whole(0, 10**36)] | None = None
    fit: str | None = None
    choice: str | None = None
    dataset: Annotated[str, check_string] | None = None
    lower: bool | None = None
    failed: int | None = None
    errata: Annotated[str, check_string] | None = None
    holds_for: HoldsFor = None
    note: Annotated[str, check_string] | None = None
    other: Proportion = None
    other_low: Proportion = None
    other_high: Proportion = None
    unit: Unit = None
    priced_budget: Amount = None
    spent: Amount = None
    saved: Amount = None
    population: Annotated[str, check_string] | None = None

    @classmethod
    def of(cls, model: "AddedModel") -> "Addition":
        """Returns the record of a new model."""
        estimate, part = model.estimate, model.part
        value, low, high, *other = (
            None if math.isnan(mean) else float(mean)
            for mean in (
                *(estimate.value, estimate.low, estimate.high),
                *(estimate.other or (math.nan,) * 3),
            )
        )
        spending = estimate.spending
        return cls(
            kind="model",
            name=model.name,
            **model.made_by,
            models=model.known,
            samples=len(part.columns),
            asked=estimate.observed,
            accuracy=value,
            low=low,
            high=high,
            **dict(zip(("rank", "rank_low", "rank_high"), model.ranks, strict=True)),
            reason=estimate.reason or None,
            fit=model.fit,
            dataset=part.name or None,
            lower=part.lower or None,
            failed=estimate.failed or None,
            holds_for=estimate.holds_for,
            note=estimate.note or None,
            **dict(zip(("other", "other_low", "other_high"), other, strict=True)),
            **({} if spending is None else _describe_spending(spending)),
            population=None if estimate.mean_over == SAMPLES else estimate.mean_over,
            **model.costs,
        )

    @property
    def estimate(self) -> Estimate:
        """The estimate of a model's mean, from 0 to 1."""
        means = (self.accuracy, self.low, self.high, self.other, self.other_low, self.other_high)
        value, low, high, *other = (math.nan if mean is None else mean for mean in means)
        return Estimate(
            value,
            low,
            high,
            self.reason or "",
            self.asked,
            failed=self.failed or 0,
            holds_for=self.holds_for or NOT_STATED,
            note=self.note or "",
            other=None if self.other is None else (other[0], other[1], other[2]),
            spending=self.spending,
            mean_over=self.population or SAMPLES,
        )

    @property
    def spending(self) -> Spending | None:
        """What its samples cost; None if the budget was a number of samples."""
        if self.unit is None:
            return None
        return Spending(self.unit, self.priced_budget or 0, self.spent or 0, self.saved or 0)

    def __post_init__(self) -> None:
        if self.kind == "samples" and not self.name.split(" ")[0].isdecimal():
            raise ValueError(f"name is {self.name!r}, not a number of samples")


def _describe_spending(spending: Spending) -> dict[str, Any]:
    """Returns the entries of a record for a budget in prices of samples."""
    entries = vars(spending).copy()
    return entries | {"priced_budget": entries.pop("budget")}


_FIELDS = {field.name for field in fields(Addition)}


def append(directory: Path, addition: Addition) -> None:
    """Appends one record and syncs the file, unless a record is there that differs only in costs:
    the same command may run again, after a kill or in another process, and then needs no new fit.
    """
    addition = replace(addition, errata=digest_errata(directory))
    append_checked(directory / ADDITIONS, _make_fields(addition), once=_COSTS)


def digest_errata(directory: Path) -> str | None:
    """Returns the digest of a cache's errata, with which that of a record is compared; None if
    there are none, or no cache.
    """
    if not (path := directory / INDEX).is_file():
        return None
    with Index(path).reading() as db:
        return records.digest_errata(db)


def _make_fields(addition: Addition) -> dict[str, Any]:
    """Returns the fields of a line. Those that earlier versions did not have are left out if None,
    so that most lines stay as these versions wrote them.
    """
    new = {"errata", "unit", "priced_budget", "spent", "saved", "population"}
    return {name: v for name, v in asdict(addition).items() if name not in new or v is not None}


def write(directory: Path, additions: Sequence[Addition]) -> None:
    """Replaces all records of a cache."""
    write_file(directory / ADDITIONS, check_content(map(_make_fields, additions)))


def read_additions(directory: Path) -> list[Addition]:
    """Returns the additions to a cache, in the order in which they were made; a line that was cut
    short by a kill is left out.

    Raises:
      DamagedCache: a line is not a record; the message names it.
    """
    additions = []
    for addition in examine(directory):
        if isinstance(addition, str):
            raise DamagedCache(
                f"{addition}. Copy the undamaged lines: python -m launch.evaluate repair"
                f" --cache={directory} --out=NEW_DIR"
            )
        additions.append(addition)
    return additions


def examine(directory: Path) -> Iterator[Addition | str]:
    """Yields the addition of each line; or, if the line is not a record, a message that names the
    file, the line and what is wrong.
    """
    path = directory / ADDITIONS
    for line in read_checked(path):
        try:
            if line.problem:
                raise ValueError(line.problem)
            values = check_object(line.values)
            for name in values.keys() - _FIELDS:
                raise ValueError(unknown("value", name, sorted(_FIELDS)))
            yield Addition.from_json(values)
        except ValueError as error:
            yield f"{path}, line {line.number}: not a record of an addition ({error})"


def merge_additions(target: Path, source: Path, names: Mapping[str, str]) -> None:
    """Appends to a cache's record the additions that only another cache's record has; call it
    after `EvaluationCache.merge`. Repeating it appends nothing.

    Args:
      target, source: directories of the caches.
      names: by id of a model in the source, its id in the target.

    Raises:
      DamagedCache: a line of either record is damaged.
    """
    known = read_additions(target)
    for addition in read_additions(source):
        if addition.kind == "model":
            addition = replace(addition, name=names.get(addition.name, addition.name))
        if addition not in known:
            append_checked(target / ADDITIONS, _make_fields(addition))
