"""Adding models and samples to a cache: a few cells are asked, the others predicted, and the
account of it is kept.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import memory, methods, price
from nevis_stream.dynamic_evaluation.additions import Addition, append, read_additions
from nevis_stream.dynamic_evaluation.asking import Answers, Ask, Cells, Cost, check_budget
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.entries import EACH
from nevis_stream.dynamic_evaluation.fits import FOLDER, StoredFit
from nevis_stream.dynamic_evaluation.groups import groups_of
from nevis_stream.dynamic_evaluation.known import (
    KNOWN_SHARE,
    InCache,
    InMemory,
    Known,
    learned_rows,
)
from nevis_stream.dynamic_evaluation.matrix import numbers, observed, unknown_cells
from nevis_stream.dynamic_evaluation.method import Method, context
from nevis_stream.dynamic_evaluation.samples import SampleFacts
from nevis_stream.errors import BadInput, RunWarning


def add_models(
    cache: EvaluationCache,
    asks: Mapping[str, Ask],
    budget: int,
    method: str = "recommended",
    *,
    seed: int = 0,
    provenances: Mapping[str, dict[str, Any]] | None = None,
) -> list[Addition]:
    """Evaluates new models on few of a cache's samples; their rows then hold what was observed and,
    apart, what was predicted.

    Cells that the cache has already are not asked again, so a killed addition goes on where it was.

    Args:
      cache: the cache; its known models are learned from (see `known.learned_from`), but for the
        new.
      asks: by the id of a new model, what answers for it: int64[1, b], columns of the cache.
      budget: samples to be observed of each.
      method: name of a method, or a pair.
      seed: of the method's choices.
      provenances: of the models, by id; what one answer costs is added where it is not there yet.

    Returns:
      The account of each.

    Raises:
      BadInput: no known model, an unknown method, a budget that is no number of samples.
    """
    chosen, samples = methods.get(method), cache.shape[1]
    known, accuracies, names = _known(cache, samples, without=list(asks))
    facts = {model: (provenances or {}).get(model, {}) for model in asks}
    rows = [CachedAsk(cache, model, samples, facts[model], ask) for model, ask in asks.items()]

    def ask(cells: Cells) -> Answers:
        each = (Cells(columns[None]) for columns in cells.samples)
        parts = [row(columns) for row, columns in zip(rows, each, strict=True)]
        cost = sum((part.cost for part in parts), Cost())
        return Answers(cells, np.vstack([part.values for part in parts]), cost)

    fitting, evaluating = jax.random.split(jax.random.key(seed))
    check_budget(budget, samples)
    known.groups = groups_of(cache, names, known.packed_rows())
    used, ctx = chosen.fitting(known), context()
    readable = memory.fitting(used, known, len(rows))
    fit = cache.directory / FOLDER / used.name
    stored = StoredFit(fit, used, known, seed, read_additions(cache.directory))
    _warn(used, known, [row.flops_each for row in rows], budget, stored, "model")
    evaluator = stored.evaluator(readable, budget, fitting, ctx)
    estimates = evaluator.evaluate(ask, len(rows), budget, evaluating)
    made_by = {"method": method, "budget": budget, "seed": seed}
    seen = np.stack([row.values for row in rows])
    predicted = estimates.values if known.scores else estimates.outcomes
    unseen = np.where(observed(seen), unknown_cells((), known.scores), predicted)
    cache.append_predictions(list(asks), np.arange(samples), unseen, made_by=made_by)
    own = total(ctx.meter.counts()) // len(rows)
    accounts = []
    for row, estimate in zip(rows, estimates, strict=True):
        bounded = row.bounded([estimate.value, estimate.low, estimate.high], known.facts)
        value, low, high = map(_number, bounded)
        account = Addition(
            kind="model",
            name=row.model,
            **made_by,
            models=len(names),
            samples=samples,
            asked=row.asked,
            accuracy=value,
            low=low,
            high=high,
            rank=_rank(accuracies, value),
            rank_low=_rank(accuracies, high),
            rank_high=_rank(accuracies, low),
            reason=estimate.reason or None,
            fit=stored.key,
            **_cost([row.before], [samples], [row.flops_each], row.cost, own),
        )
        accounts.append(account)
        append(cache.directory, account)
    return accounts


def add_samples(
    cache: EvaluationCache,
    samples: Sequence[str],
    asks: Mapping[str, Ask],
    budget: int,
    method: str = "sort_and_search",
    *,
    seed: int = 0,
    provenances: Sequence[dict[str, Any]] | None = None,
) -> Addition:
    """Evaluates few of the known models on new samples: models and samples change places.

    Args:
      cache: the cache; its known models (see `known.learned_from`) are asked, and predicted.
      samples: ids of the new samples.
      asks: by the id of a model, what answers for it: int64[1, b], positions in `samples`.
      budget: models to be observed on each sample.
      method: name of a method, or a pair.
      seed: of the method's choices.
      provenances: of each sample; with `low` and `high` it has scores.

    Raises:
      BadInput: no known model, an unknown method, a budget that is no number of models, or a model
        that nothing answers for.
    """
    chosen, columns, facts = methods.get(method), cache.samples(), cache.models()
    view, _, names = _known(cache, len(columns))
    known = memory.transposed(chosen, view, len(samples))
    values = unknown_cells((len(samples), len(names)), cache.scores)
    have = {sample: column for column, sample in enumerate(columns)}
    old = [i for i, sample in enumerate(samples) if sample in have]
    if old:
        values[old] = cache.matrix(names, [samples[i] for i in old]).T
    before, costs = observed(values).sum(axis=0), [Cost()]

    def ask(cells: Cells) -> Answers:
        models = cells.samples
        for model in np.unique(models):
            wanted = np.flatnonzero((models == model).any(axis=1) & ~observed(values[:, model]))
            if len(wanted):
                name, ids = names[model], [samples[i] for i in wanted]
                if name not in asks:
                    raise BadInput(
                        f"model {name!r} cannot be asked: only models that came from a run"
                        " directory, or that the file has, can."
                    )
                answers = asks[name](Cells(wanted[None]))
                confidence = None if answers.confidence is None else answers.confidence[0]
                values[wanted, model] = answers.values[0]
                cache.append(name, ids, answers.values[0], confidence)
                costs.append(answers.cost)
        return Answers(cells, np.take_along_axis(values, models, axis=1))

    learned = observed(known).mean(axis=0) >= KNOWN_SHARE
    # so that a killed addition asks the same again
    learned[[have[samples[i]] for i in old]] = False
    if not learned.any():
        raise BadInput(
            f"{cache.directory}: no other sample on which half of the models are observed; nothing"
            " to learn from."
        )
    check_budget(budget, len(names), "known models on each sample")
    rows, ctx = InMemory(np.ascontiguousarray(known[:, learned].T)), context()
    used = chosen.fitting(rows)
    fit = cache.directory / FOLDER / f"{used.name}-samples"
    stored = StoredFit(fit, used, rows, seed, read_additions(cache.directory))
    each = [facts[name].get(EACH) for name in names]
    mean = None if None in each else sum(each) / len(each)
    _warn(used, rows, [mean] * len(samples), budget, stored, "sample")
    cache.add_samples(samples, provenances or [None] * len(samples))
    fitting, evaluating = jax.random.split(jax.random.key(seed))
    evaluator = stored.evaluator(rows, budget, fitting, ctx)
    estimates = evaluator.evaluate(ask, len(samples), budget, evaluating)
    made_by = {"method": method, "budget": budget, "seed": seed}
    predicted = estimates.values if cache.scores else estimates.outcomes
    unseen = np.where(observed(values), unknown_cells((), cache.scores), predicted)
    cache.append_predictions(names, samples, np.ascontiguousarray(unseen.T), made_by=made_by)
    own = total(ctx.meter.counts())
    account = Addition(
        kind="samples",
        name=f"{len(samples)} samples",
        **made_by,
        models=len(names),
        samples=int(learned.sum()),
        asked=int(np.count_nonzero(observed(values))),
        fit=stored.key,
        **_cost(before, [len(samples)] * len(names), each, sum(costs, Cost()), own),
    )
    append(cache.directory, account)
    return account


class CachedAsk:
    """An `Ask` for one new model: what the cache has is read, the rest is asked and at once kept.

    Args:
      cache: the cache.
      model: the model's id.
      samples: how many columns of the cache take part.
      provenance: of the model.
      ask: what answers for it.

    Attributes:
      values: [samples], what is observed.
      before: how many cells were observed before.
      cost: of all that was asked.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        model: str,
        samples: int,
        provenance: dict[str, Any],
        ask: Ask,
    ):
        self.model, self.cost = model, Cost()
        self._cache, self._provenance, self._ask = cache, provenance, ask
        self.values = unknown_cells((samples,), cache.scores)
        self._known = model in cache.models()
        if self._known:
            self.values = cache.matrix([model])[0, :samples]
        self.before = self.asked

    @property
    def asked(self) -> int:
        """How many cells are observed."""
        return int(np.count_nonzero(observed(self.values)))

    def __call__(self, cells: Cells) -> Answers:
        """Returns the values of int64[1, b], and what it cost to ask for those that are new."""
        (columns,), cost = cells.samples, Cost()
        new = columns[~observed(self.values[columns])]
        if len(new):
            answers = self._ask(Cells(new[None]))
            cost = answers.cost
            flops = cost.flops
            each = {} if flops is None else {EACH: flops / len(new)}
            facts = None if self._known else each | self._provenance
            confidence = None if answers.confidence is None else answers.confidence[0]
            ids, values = self._cache.samples(new), answers.values[0]
            self._cache.append(self.model, ids, values, confidence, provenance=facts)
            self.values[new], self._known = values, True
            self.cost += cost
        return Answers(cells, self.values[columns][None], cost)

    def bounded(self, means: Sequence[float], facts: SampleFacts) -> np.ndarray:
        """Returns means, as near as can be while all that is observed counts; the mean itself where
        everything is.
        """
        low, high = numbers(self.values), np.where(observed(self.values), self.values, 1)
        least, most = facts.mean(np.stack([low, high]))
        return np.clip(means, least, most) if least < most else np.full(len(means), least)

    @property
    def flops_each(self) -> float | None:
        """FLOPs of one answer: what the cache records, else the model's given provenance."""
        facts = self._cache.models()[self.model] if self._known else self._provenance
        return facts.get(EACH)


def _warn(
    method: Method,
    known: Known,
    each: Sequence[float | None],
    budget: int,
    stored: StoredFit,
    kind: str,
) -> None:
    """Warns where a method will cost more than it saves, if the price of answers is known."""
    if None in each or budget == known.shape[1]:
        return
    if message := price.warning(method, known, each, budget, stored.tree, kind):
        warnings.warn(message, RunWarning, stacklevel=3)


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
    weighted = known.facts.dataset_weights is not None
    for i in range(len(rows)) if weighted else np.flatnonzero(seen < samples):
        whole = cache.matrix(rows[i : i + 1], predicted=True)[:, :samples]
        (right[i],), (seen[i],) = (known.facts.mean(part(whole)) for part in (numbers, observed))
    return known, right / seen, [names[row] for row in rows]


def _cost(
    before: Sequence[int],
    cells: Sequence[int],
    each: Sequence[float | None],
    asking: Cost,
    own: int,
) -> dict[str, float | None]:
    """Returns FLOPs spent and saved, and those of the method itself.

    Args:
      before: of each model, its cells that were observed before.
      cells: of each model, its cells in all.
      each: of each model, the price of an answer.
      asking: what the answers cost.
      own: FLOPs that the method computed itself.
    """
    if None in each or asking.flops is None:
        unknown = asking.flops is None or np.any(before)
        spent = None if unknown else asking.flops + own
        return {"flops_spent": spent, "flops_saved": None, "flops_method": own}
    spent = asking.flops + own + float(np.dot(before, each))
    saved = float(np.dot(cells, each)) - spent
    return {"flops_spent": spent, "flops_saved": saved, "flops_method": own}


def _rank(accuracies: np.ndarray, value: float | None) -> int | None:
    """Returns the place among known models, 1 for the best; equal ones share it."""
    # sums in another order differ in the last digits
    return None if value is None else 1 + int((accuracies > value + 1e-9).sum())


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
