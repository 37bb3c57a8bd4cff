"""Adds models and samples to a cache: a few cells are asked, the others are predicted, and an
account of the cost is kept.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.dynamic_evaluation import memory, methods, price
from nevis_stream.dynamic_evaluation.additions import Addition, append, read_additions
from nevis_stream.dynamic_evaluation.asking import Answers, Ask, Cells, Cost, check_budget
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.entries import EACH
from nevis_stream.dynamic_evaluation.cached_ask import CachedAsk, askable_cells
from nevis_stream.dynamic_evaluation.choice import MOST_FLOPS, Choice, choose
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.fits import FOLDER, StoredFit, stored_name
from nevis_stream.dynamic_evaluation.groups import groups_of
from nevis_stream.dynamic_evaluation.known import (
    KNOWN_SHARE,
    InCache,
    InMemory,
    Known,
    learned_rows,
)
from nevis_stream.dynamic_evaluation.matrix import numbers, observed, unknown_cells
from nevis_stream.dynamic_evaluation.method import Method
from nevis_stream.dynamic_evaluation.stages import staged_context
from nevis_stream.dynamic_evaluation.substitutes import Substitutes
from nevis_stream.dynamic_evaluation.whole_images import images_of, with_all_labels
from nevis_stream.errors import BadInput, RunWarning


def add_models(
    cache: EvaluationCache,
    asks: Mapping[str, Ask],
    budget: int,
    method: str | None = None,
    *,
    seed: int = 0,
    provenances: Mapping[str, dict[str, Any]] | None = None,
    most_flops: float = MOST_FLOPS,
    available: Mapping[str, np.ndarray] | None = None,
    progress: Callable[[str], None] = lambda stage: None,
    report_choice: Callable[[Choice], None] = lambda choice: None,
    report_values: Callable[[str, np.ndarray], None] = lambda model, values: None,
) -> list[Addition]:
    """Evaluates new models on a few of a cache's samples; observed and predicted values are added
    to the cache.

    Cells that the cache already has are not asked again, so an addition that was killed continues
    where it stopped. Models that are observed on every sample already (see `complete_models`) are
    left out, and have no account.

    Args:
      cache: the cache. The method learns from its known models (see `known.learned_from`), except
        those that are added.
      asks: by the id of each new model, what answers for it: takes columns of the cache, int64[1,
        b].
      budget: number of samples to observe of each model; in a multi-label data set of images, each
        of which is observed on all of its labels.
      method: name of a method, or a pair; None: the one that is chosen for these known models and
        this budget (see `choice`).
      seed: of the method's random choices.
      provenances: of the models, by id; the price of an answer is added to them if it is missing.
      most_flops: that the choice of a method may compute; if the prices of answers are known, no
        more than what is saved by asking fewer cells.
      available: bool[n], by the id of a model, the samples on which it can be asked; others are
        replaced by similar ones (see `substitutes`). A model without an entry can be asked on all.
      progress: called with the name of each stage when it begins.
      report_choice: called with the choice, if there is one, before anything is asked.
      report_values: called with each model's name and values, float32[n]: the observed ones, and
        the expected ones of the other samples, which the cache has as 0 or 1 where it has outcomes.

    Returns:
      The account of each model that was not complete.

    Raises:
      BadInput: there is no known model, the method is unknown, or the budget is not valid or above
        the number of samples on which a model can be asked.
    """
    samples = cache.shape[1]
    if method is not None:
        methods.within_budget(method)  # a wrong name is an error before anything is read
    complete = {each.name for each in complete_models(cache, list(asks))}
    asks = {model: ask for model, ask in asks.items() if model not in complete}
    if not asks:
        return []
    known, accuracies, names = _known(cache, samples, without=list(asks))
    facts = {model: (provenances or {}).get(model, {}) for model in asks}
    if available:  # a file may lack some labels of an image
        known.facts = dataclasses.replace(known.facts, image=None)
    image = known.facts.image
    rows = [
        CachedAsk(cache, model, samples, facts[model], ask, image) for model, ask in asks.items()
    ]

    check_budget(budget, known.facts.points)
    askable = np.stack(
        [askable_cells(row, (available or {}).get(row.model), budget) for row in rows]
    )
    substitutes = None if askable.all() else Substitutes(known, askable)

    def ask(cells: Cells) -> Answers:
        cells = cells if substitutes is None else substitutes(cells)
        row_cells = (Cells(columns[None]) for columns in cells.samples)
        parts = [row(columns) for row, columns in zip(rows, row_cells, strict=True)]
        cost = sum((part.cost for part in parts), Cost())
        return Answers(cells, np.vstack([part.values for part in parts]), cost)

    known.groups = groups_of(cache, names, known.packed_rows())
    prices, choice = [row.flops_each for row in rows], None
    if method is None:
        asked = budget * (samples // known.facts.points)
        saved = np.inf if None in prices else sum(prices) * (samples - asked)
        additions, new = read_additions(cache.directory), len(rows)
        choice = choose(
            cache.directory,
            known,
            new,
            budget,
            seed,
            additions,
            most_flops,
            saved,
            lambda name: progress(f"trying {name}"),
        )
        report_choice(choice)
        method = choice.method
    used = methods.within_budget(method).for_known(known)
    used.check(budget, known)
    readable = memory.readable(used, known, len(rows))
    stored = _stored_fit(cache, used.name, used, known, seed)
    _warn(used, known, prices, budget, stored, "model")
    estimates, own = _evaluate(stored, readable, ask, len(rows), budget, seed, progress)
    if substitutes is not None and substitutes.counts.any():
        warnings.warn(substitutes.message(list(asks)), RunWarning, stacklevel=2)
    own += 0 if choice is None else choice.flops
    made_by = {"method": method, "budget": budget, "seed": seed}
    values = np.stack([row.values for row in rows])
    predicted = _predicted_only(estimates, values)
    cache.append_predictions(list(asks), np.arange(samples), predicted, made_by=made_by)
    accounts = []
    for row, estimate, expected in zip(rows, estimates, estimates.values, strict=True):
        bounded = row.bounded([estimate.value, estimate.low, estimate.high], known.facts)
        value, low, high = (None if np.isnan(mean) else float(mean) for mean in bounded)
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
            choice=None if choice is None else choice.key,
            **_cost([row.asked_before], [samples], [row.flops_each], row.cost, own // len(rows)),
        )
        accounts.append(account)
        append(cache.directory, account)
        known_or_expected = np.where(observed(row.values), row.values, expected)
        report_values(row.model, known_or_expected.astype(np.float32))
    return accounts


@dataclass(frozen=True)
class CompleteModel:
    """A model of a cache that is observed on every sample.

    Attributes:
      name: the model's id.
      accuracy: its mean over all samples.
      rank: its place by accuracy among the known models, of which it is one; 1 is the best.
      models: number of known models.
    """

    name: str
    accuracy: float
    rank: int
    models: int


def complete_models(cache: EvaluationCache, models: Sequence[str]) -> list[CompleteModel]:
    """Returns those of these models that are observed on every sample, so that nothing is left to
    ask or to predict.
    """
    samples = cache.shape[1]
    counts = observed_cells(cache, models)
    complete = [model for model in models if counts[model] == samples > 0]
    if not complete:
        return []
    _, accuracies, names = _known(cache, samples)
    by_name = dict(zip(names, accuracies.tolist(), strict=True))
    return [
        CompleteModel(model, by_name[model], _rank(accuracies, by_name[model]) or 0, len(names))
        for model in complete
    ]


def observed_cells(cache: EvaluationCache, models: Sequence[str]) -> dict[str, int]:
    """Returns the number of observed cells of each model; 0 if the cache does not have it."""
    counts = dict(zip(cache.models(), cache.row_sums()[1].tolist(), strict=True))
    return {model: int(counts.get(model, 0)) for model in models}


def fit_method(
    cache: EvaluationCache,
    budget: int,
    method: str | None = None,
    *,
    seed: int = 0,
    most_flops: float = MOST_FLOPS,
    progress: Callable[[str], None] = lambda stage: None,
) -> tuple[str, str, int]:
    """Fits a method to a cache's known models for a budget; `add_models` uses the stored fit until
    these models change, and the first addition is charged for it.

    What was fitted before is not fitted again.

    Args:
      cache, budget, method, seed, most_flops: as of `add_models`.
      progress: called with the name of each method that is fitted, and with its stages.

    Returns: the method's name, why it was chosen ("" if it was given), and the FLOPs of its fit.
    """
    samples, reason = cache.shape[1], ""
    if method is not None:
        methods.within_budget(method)
    known, _, names = _known(cache, samples)
    check_budget(budget, known.facts.points)
    known.groups = groups_of(cache, names, known.packed_rows())
    additions = read_additions(cache.directory)
    if method is None:
        choice = choose(
            cache.directory, known, 1, budget, seed, additions, most_flops, progress=progress
        )
        method, reason = choice.method, choice.reason
    used = methods.within_budget(method).for_known(known)
    used.check(budget, known)
    progress(used.name)
    readable = memory.readable(used, known, 1)
    stored = _stored_fit(cache, used.name, used, known, seed)
    fit_key, _ = jax.random.split(jax.random.key(seed))
    ctx = staged_context(lambda stage: progress(f"{used.name}: {stage}"))
    stored.evaluator(readable, budget, fit_key, ctx)
    return used.name, reason, stored.flops(budget)


def add_samples(
    cache: EvaluationCache,
    samples: Sequence[str],
    asks: Mapping[str, Ask],
    budget: int,
    method: str = "sort_and_search",
    *,
    seed: int = 0,
    provenances: Sequence[dict[str, Any]] | None = None,
    source: str = "",
    remedy: str = "",
    progress: Callable[[str], None] = lambda stage: None,
) -> Addition:
    """Evaluates a few of the known models on new samples: models and samples change places.

    Args:
      cache: the cache; its known models (see `known.learned_from`) are asked, or predicted.
      samples: ids of the new samples.
      asks: by the id of a model, what answers for it: takes positions in `samples`, int64[1, b].
      budget: number of models to observe on each sample.
      method: name of a method, or a pair.
      seed: of the method's random choices.
      provenances: of each sample; a sample with `low` and `high` has scores.
      source: what the asks read, for messages; default: the cache.
      remedy: what to do if a model has no `Ask`, for messages.
      progress: called with the name of each stage when it begins.

    Raises:
      BadInput: there is no known model, the method is unknown, the budget is not valid, or there is
        no `Ask` for a known model with an unobserved cell: a policy may choose any of them. Then
        nothing is asked or written.
    """
    named, columns, facts = methods.within_budget(method), cache.samples(), cache.models()
    view, _, names = _known(cache, len(columns))
    known = memory.transposed(named, view, len(samples))
    values = unknown_cells((len(samples), len(names)), cache.scores)
    column_of = {sample: column for column, sample in enumerate(columns)}
    old = [i for i, sample in enumerate(samples) if sample in column_of]
    if old:
        values[old] = cache.matrix(names, [samples[i] for i in old]).T
    asked_before, costs = observed(values).sum(axis=0), [Cost()]
    check_budget(budget, len(names), "known models on each sample")
    multi_label = cache.about.get("kind") == MULTI_LABEL
    image = images_of(samples) if multi_label else None
    unanswered = [
        name
        for name, count in zip(names, asked_before, strict=True)
        if count < len(samples) and name not in asks
    ]
    if unanswered:
        raise BadInput(_cannot_answer(source or str(cache.directory), unanswered, names, remedy))

    def ask(cells: Cells) -> Answers:
        models = cells.samples
        for model in np.unique(models):
            new = np.flatnonzero((models == model).any(axis=1) & ~observed(values[:, model]))
            if image is not None and len(new):  # one forward pass answers for all labels
                new = with_all_labels(new, image)
                new = new[~observed(values[new, model])]
            if len(new):
                name, ids = names[model], [samples[i] for i in new.tolist()]
                answers = asks[name](Cells(new[None]))
                confidence = None if answers.confidence is None else answers.confidence[0]
                values[new, model] = answers.values[0]
                cache.append(name, ids, answers.values[0], confidence)
                costs.append(answers.cost)
        return Answers(cells, np.take_along_axis(values, models, axis=1))

    is_learned = observed(known).mean(axis=0) >= KNOWN_SHARE
    # so that an addition that was killed asks the same cells again
    is_learned[[column_of[samples[i]] for i in old]] = False
    if not is_learned.any():
        raise BadInput(
            f"{cache.directory}: no other sample on which half of the models are observed; nothing"
            " to learn from."
        )
    rows = InMemory(np.ascontiguousarray(known[:, is_learned].T))
    used = named.for_known(rows)
    stored = _stored_fit(cache, f"{used.name}-samples", used, rows, seed)
    prices = [facts[name].get(EACH) for name in names]
    mean_price = None if None in prices else sum(prices) / len(prices)
    _warn(used, rows, [mean_price] * len(samples), budget, stored, "sample")
    cache.add_samples(samples, provenances or [None] * len(samples))
    estimates, own = _evaluate(stored, rows, ask, len(samples), budget, seed, progress)
    made_by = {"method": method, "budget": budget, "seed": seed}
    predicted = np.ascontiguousarray(_predicted_only(estimates, values).T)
    cache.append_predictions(names, samples, predicted, made_by=made_by)
    account = Addition(
        kind="samples",
        name=f"{len(samples)} samples",
        **made_by,
        models=len(names),
        samples=int(is_learned.sum()),
        asked=int(np.count_nonzero(observed(values))),
        fit=stored.key,
        **_cost(asked_before, [len(samples)] * len(names), prices, sum(costs, Cost()), own),
    )
    append(cache.directory, account)
    return account


def _cannot_answer(
    source: str, unanswered: Sequence[str], names: Sequence[str], remedy: str
) -> str:
    """Returns a message that known models, of `names`, cannot be asked."""
    first = ", ".join(repr(name) for name in unanswered[:3])
    more = f" and {len(unanswered) - 3} more" if len(unanswered) > 3 else ""
    return (
        f"{source}: {len(unanswered)} of the {len(names)} known models cannot be evaluated on the"
        f" new samples: {first}{more}. Any of them may be asked, so nothing was asked. {remedy}"
    ).rstrip()


def _stored_fit(
    cache: EvaluationCache, name: str, method: Method, known: Known, seed: int
) -> StoredFit:
    additions = read_additions(cache.directory)
    folder = cache.directory / FOLDER / stored_name(name, known)
    return StoredFit(folder, method, known, seed, additions)


def _evaluate(
    stored: StoredFit,
    known: Known,
    ask: Ask,
    new: int,
    budget: int,
    seed: int,
    progress: Callable[[str], None],
) -> tuple[Estimates, int]:
    """Returns the estimates of new models, and the FLOPs that the method computed itself."""
    if stored.outdated:
        progress("the stored fit is of other known models or another seed; fitting anew")
    ctx = staged_context(progress)
    fit_key, evaluation_key = jax.random.split(jax.random.key(seed))
    evaluator = stored.evaluator(known, budget, fit_key, ctx)
    estimates = evaluator.evaluate(ask, new, budget, evaluation_key)
    return estimates, total(ctx.meter.counts())


def _predicted_only(estimates: Estimates, values: np.ndarray) -> np.ndarray:
    """Returns the predictions of estimates, unknown where a value, [m, n], is observed."""
    scores = values.dtype.kind == "f"
    predicted = estimates.values if scores else estimates.outcomes
    return np.where(observed(values), unknown_cells((), scores), predicted)


def _warn(
    method: Method,
    known: Known,
    prices: Sequence[float | None],
    budget: int,
    stored: StoredFit,
    kind: str,
) -> None:
    """Warns if a method will cost more than it saves and the prices of answers are known."""
    if None in prices or budget == known.facts.points:
        return
    if message := price.warning(method, known, prices, budget, stored.tree, kind):
        warnings.warn(message, RunWarning, stacklevel=3)


def _known(
    cache: EvaluationCache, samples: int, without: Sequence[str] = ()
) -> tuple[InCache, np.ndarray, list[str]]:
    """Returns the known models on the first columns, their accuracies float64[m] and their ids.

    Accuracies are means of observed and predicted cells: a model may be observed on easy samples
    only.
    """
    names = list(cache.models())
    others = np.array([row for row, name in enumerate(names) if name not in set(without)], np.int64)
    rows = learned_rows(cache, others, samples)
    if not len(rows):
        present = [name for name in without if name in set(names)]
        reason = ""
        if present:
            reason = (
                f" The models to add are not known ones, although {len(present)} of them"
                f" ({present[0]!r}) are in the cache."
            )
        raise BadInput(
            f"{cache.directory}: no other model has been observed; import some models first."
            f"{reason}"
        )
    known = InCache(cache, rows, samples)
    total_value, cells = (sums.astype(np.float64) for sums in known.row_sums())
    weighted = known.facts.dataset_weights is not None
    for i in range(len(rows)) if weighted else np.flatnonzero(cells < samples):
        row = cache.matrix(rows[i : i + 1], predicted=True)[:, :samples]
        (total_value[i],), (cells[i],) = (
            known.facts.mean(part(row)) for part in (numbers, observed)
        )
    return known, total_value / cells, [names[row] for row in rows]


def _cost(
    asked_before: Sequence[int],
    cells: Sequence[int],
    prices: Sequence[float | None],
    asking: Cost,
    own: int,
) -> dict[str, float | None]:
    """Returns FLOPs spent and saved, and those of the method itself.

    Args:
      asked_before: for each model, the number of its cells that were observed before.
      cells: for each model, the number of all its cells.
      prices: for each model, FLOPs of an answer.
      asking: cost of the answers.
      own: FLOPs that the method computed itself.
    """
    if None in prices or asking.flops is None:
        unknown = asking.flops is None or np.any(asked_before)
        spent = None if unknown else asking.flops + own
        return {"flops_spent": spent, "flops_saved": None, "flops_method": own}
    spent = asking.flops + own + float(np.dot(asked_before, prices))
    saved = float(np.dot(cells, prices)) - spent
    return {"flops_spent": spent, "flops_saved": saved, "flops_method": own}


def _rank(accuracies: np.ndarray, value: float | None) -> int | None:
    """Returns the place among known models, 1 for the best; equal models share a place."""
    # sums in another order differ in the last digits
    return None if value is None else 1 + int((accuracies > value + 1e-9).sum())
