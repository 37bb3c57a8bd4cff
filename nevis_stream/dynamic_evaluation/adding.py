"""Adding models and samples to a cache: a few cells are observed, the others predicted, and the
account of it is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import memory, methods
from nevis_stream.dynamic_evaluation.additions import Addition, append
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.entries import EACH
from nevis_stream.dynamic_evaluation.cache.files import ValueTable
from nevis_stream.dynamic_evaluation.groups import groups_of
from nevis_stream.dynamic_evaluation.insertion import insert_samples
from nevis_stream.dynamic_evaluation.known import KNOWN_SHARE, InCache, learned_rows
from nevis_stream.dynamic_evaluation.method import UNKNOWN, check_budget
from nevis_stream.errors import BadInput, unknown


@dataclass(frozen=True)
class Observed:
    """What one model said of b samples.

    Attributes:
      correct: uint8[b].
      confidence: of the true class, float[b], if known.
      flops: what these answers cost, if known.
      flops_each: what an answer costs where many are asked at a time, if known; few may cost more,
        as batches are filled up.
    """

    correct: np.ndarray
    confidence: np.ndarray | None = None
    flops: int | None = None
    flops_each: float | None = None


class Oracle(Protocol):
    """Knows, or finds out, the outcomes of models on samples."""

    def answer(self, model: str, samples: Sequence[str]) -> Observed:
        """Returns the outcomes of one model on some samples, all by id; BadInput where it cannot
        know them.
        """
        ...


def add_models(
    cache: EvaluationCache,
    models: Sequence[str],
    oracle: Oracle,
    budget: int,
    method: str = "recommended",
    *,
    seed: int = 0,
    provenances: Sequence[dict[str, Any] | None] | None = None,
) -> list[Addition]:
    """Evaluates new models on few of a cache's samples; their rows then hold what was observed and,
    apart, what was predicted.

    Cells that the cache has already are not asked again, so a killed addition goes on where it was.

    Args:
      cache: the cache; its known models are learned from (see `known.learned_from`), but for the
        new.
      models: ids of the new models, evaluated side by side.
      oracle: answers for them.
      budget: samples to be observed of each.
      method: name of a method.
      seed: of the method's choices.
      provenances: of the models; what one answer costs is added to them.

    Returns:
      The account of each.

    Raises:
      BadInput: no known model, an unknown method, a budget that is no number of samples.
    """
    samples = cache.shape[1]
    known, accuracies, names = _known(cache, samples, without=models)
    facts = provenances or [None] * len(models)
    rows = [
        _Row(cache, model, samples, of, oracle) for model, of in zip(models, facts, strict=True)
    ]

    def ask(samples: np.ndarray) -> np.ndarray:
        return np.stack([row.ask(wanted) for row, wanted in zip(rows, samples, strict=True)])

    fitting, evaluating = jax.random.split(jax.random.key(seed))
    check_budget(budget, samples)
    seen_by = memory.fitting(methods.get(method), known, len(models))
    evaluator = methods.get(method).fit(
        seen_by, groups_of(cache, names, known.packed_rows()), fitting
    )
    estimate = evaluator.evaluate(ask, len(models), budget, evaluating)
    made_by = {"method": method, "budget": budget, "seed": seed}
    seen = np.stack([row.outcomes for row in rows])
    unseen = np.where(seen == UNKNOWN, estimate.outcomes, np.uint8(UNKNOWN))
    cache.append_predictions(models, np.arange(samples), unseen, made_by=made_by)
    found = []
    for row, *numbers in zip(rows, estimate.accuracy, estimate.low, estimate.high, strict=True):
        value, low, high = map(_number, row.bounded(numbers))
        asked = int(np.count_nonzero(row.outcomes != UNKNOWN))
        account = Addition(
            kind="model",
            name=row.model,
            **made_by,
            models=len(names),
            samples=samples,
            asked=asked,
            accuracy=value,
            low=low,
            high=high,
            rank=_rank(accuracies, value),
            rank_low=_rank(accuracies, high),
            rank_high=_rank(accuracies, low),
            reason=estimate.reason or None,
            **_cost([row.before], [samples], [row.flops_each], row.paid.flops),
        )
        found.append(_told(cache, account))
    return found


def add_samples(
    cache: EvaluationCache,
    samples: Sequence[str],
    oracle: Oracle,
    budget: int,
    method: str = "sort_and_search",
    *,
    seed: int = 0,
    provenance: dict[str, Any] | None = None,
) -> Addition:
    """Evaluates few of the known models on new samples: models and samples change places.

    Args:
      cache: the cache; its known models (see `known.learned_from`) are asked, and predicted.
      samples: ids of the new samples.
      oracle: answers for the models.
      budget: models to be observed on each sample.
      method: name of a method.
      seed: of the method's choices.
      provenance: of the samples.

    Raises:
      BadInput: no known model, an unknown method, a budget that is no number of models.
    """
    columns, facts = cache.samples(), cache.models()
    view, _, names = _known(cache, len(columns))
    known = memory.transposed(methods.get(method), view, len(samples))
    each = [facts[name].get(EACH) for name in names]
    outcomes = np.full((len(samples), len(names)), UNKNOWN, np.uint8)
    have = {sample: column for column, sample in enumerate(columns)}
    old = [i for i, sample in enumerate(samples) if sample in have]
    if old:
        outcomes[old] = cache.matrix(names, [samples[i] for i in old]).T
    paid = _Paid()
    before = (outcomes != UNKNOWN).sum(axis=0)

    def ask(models: np.ndarray) -> np.ndarray:
        for model in np.unique(models):
            wanted = np.flatnonzero((models == model).any(axis=1) & (outcomes[:, model] == UNKNOWN))
            if len(wanted):
                ids = [samples[i] for i in wanted]
                told = paid.answer(oracle, names[model], ids)
                cache.append(
                    names[model], ids, told.correct, told.confidence, sample_provenance=provenance
                )
                outcomes[wanted, model] = told.correct
        return np.take_along_axis(outcomes, models, axis=1)

    learned = (known != UNKNOWN).mean(axis=0) >= KNOWN_SHARE
    # so that a killed addition asks the same again
    learned[[have[samples[i]] for i in old]] = False
    if not learned.any():
        raise BadInput(
            f"{cache.directory}: no other sample on which half of the models are observed; nothing"
            " to learn from."
        )
    key = jax.random.key(seed)
    check_budget(budget, len(names), "known models on each sample")
    estimate = insert_samples(
        methods.get(method), known[:, learned], ask, len(samples), budget, key
    )
    made_by = {"method": method, "budget": budget, "seed": seed}
    unseen = np.where(outcomes == UNKNOWN, estimate.outcomes, np.uint8(UNKNOWN))
    cache.append_predictions(names, samples, np.ascontiguousarray(unseen.T), made_by=made_by)
    return _told(
        cache,
        Addition(
            kind="samples",
            name=f"{len(samples)} samples",
            **made_by,
            models=len(names),
            samples=int(learned.sum()),
            asked=int(np.count_nonzero(outcomes != UNKNOWN)),
            **_cost(before, [len(samples)] * len(names), each, paid.flops),
        ),
    )


class FileOracle:
    """Reads outcomes of a file; the cells that are not asked stay unread, so a whole file shows
    what a budget would have given.

    Args:
      table: the file's values.
      file: its name, for messages.
    """

    def __init__(self, table: ValueTable, file: str = "the file"):
        self._table, self._file = table, file
        self._rows = {model: row for row, model in enumerate(table.models)}
        self._columns = {sample: column for column, sample in enumerate(table.samples)}

    def answer(self, model: str, samples: Sequence[str]) -> Observed:
        """Returns the outcomes of one model on some samples; BadInput where the file does not have
        them.
        """
        if model not in self._rows:
            raise BadInput(f"{self._file}: {unknown('model', model, list(self._rows)[:200])}")
        columns = [self._columns.get(sample, -1) for sample in samples]
        row = self._table.values[self._rows[model]]
        for sample, column in zip(samples, columns, strict=True):
            if column < 0 or row[column] == UNKNOWN:
                raise BadInput(
                    f"{self._file} does not know model {model!r} on sample {sample!r}, which was"
                    " asked."
                )
        confidence = self._table.confidence
        return Observed(
            row[columns], None if confidence is None else confidence[self._rows[model]][columns]
        )


class _Row:
    """The observed outcomes of one model, in memory and in the cache."""

    def __init__(
        self,
        cache: EvaluationCache,
        model: str,
        samples: int,
        provenance: dict[str, Any] | None,
        oracle: Oracle,
    ):
        self.model, self.paid = model, _Paid()
        self._cache, self._provenance, self._oracle = cache, provenance or {}, oracle
        self.outcomes = np.full(samples, UNKNOWN, np.uint8)
        self._known = model in cache.models()
        if self._known:
            self.outcomes = cache.matrix([model])[0, :samples]
        self.before = int(np.count_nonzero(self.outcomes != UNKNOWN))

    def ask(self, wanted: np.ndarray) -> np.ndarray:
        """Returns the outcomes of some columns; those that are not known yet come from the
        oracle.
        """
        new = wanted[self.outcomes[wanted] == UNKNOWN]
        if len(new):
            told = self.paid.answer(self._oracle, self.model, self._cache.samples(new))
            each = {} if told.flops is None else {EACH: told.flops_each or told.flops / len(new)}
            facts = None if self._known else self._provenance | each
            self._cache.append(self.model, new, told.correct, told.confidence, provenance=facts)
            self.outcomes[new], self._known = told.correct, True
        return self.outcomes[wanted]

    def bounded(self, shares: Sequence[float]) -> np.ndarray:
        """Returns accuracies, as near as can be while all that is observed counts; the one that
        there is where it is all.
        """
        right, unseen = (
            np.count_nonzero(self.outcomes == 1),
            np.count_nonzero(self.outcomes == UNKNOWN),
        )
        least, most = right / len(self.outcomes), (right + unseen) / len(self.outcomes)
        return np.clip(shares, least, most) if unseen else np.full(len(shares), least)

    @property
    def flops_each(self) -> float | None:
        """FLOPs of one answer, as the cache has them."""
        return self._cache.models()[self.model].get(EACH)


class _Paid:
    """Sums what an oracle's answers cost; None where it cannot tell."""

    def __init__(self):
        self.flops: int | None = 0

    def answer(self, oracle: Oracle, model: str, samples: Sequence[str]) -> Observed:
        told = oracle.answer(model, samples)
        self.flops = None if self.flops is None or told.flops is None else self.flops + told.flops
        return told


def _known(
    cache: EvaluationCache, samples: int, without: Sequence[str] = ()
) -> tuple[InCache, np.ndarray, list[str]]:
    """Returns the known models on the first columns, their accuracies float64[m] and their ids.

    Accuracies are of observed and predicted cells: those of samples that few models were asked
    would mislead alone.
    """
    names = list(cache.models())
    others = np.array([row for row, name in enumerate(names) if name not in set(without)], np.int64)
    rows = learned_rows(cache, others, samples)
    if not len(rows):
        here = [name for name in without if name in set(names)]
        why = (
            f" Models to add are not known ones, though {len(here)} of them are there already"
            f" ({here[0]!r})."
            if here
            else ""
        )
        raise BadInput(
            f"{cache.directory}: nothing is observed of any other model; import some models"
            f" first.{why}"
        )
    known = InCache(cache, rows, samples)
    right, seen = (sums.astype(np.float64) for sums in known.row_sums())
    for i in np.flatnonzero(seen < samples):
        whole = cache.matrix(rows[i : i + 1], predicted=True)[0, :samples]
        right[i], seen[i] = (whole == 1).sum(), (whole != UNKNOWN).sum()
    return known, right / seen, [names[row] for row in rows]


def _cost(
    before: Sequence[int], cells: Sequence[int], each: Sequence[float | None], paid: int | None
) -> dict:
    """Returns FLOPs spent and saved; of each model: its cells observed before, its cells in all,
    the price of an answer.
    """
    if None in each or paid is None:
        return {"flops_spent": None if np.any(before) else paid, "flops_saved": None}
    spent = paid + float(np.dot(before, each))
    return {"flops_spent": spent, "flops_saved": float(np.dot(cells, each)) - spent}


def _rank(accuracies: np.ndarray, value: float | None) -> int | None:
    return None if value is None else 1 + int((accuracies > value).sum())


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _told(cache: EvaluationCache, addition: Addition) -> Addition:
    append(cache.directory, addition)
    return addition
