"""Adds models to one part of a cache's samples, those that have a common mean: the others are
predicted, and the cost is accounted for.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import methods, predicted_cost
from nevis_stream.dynamic_evaluation.choice import Choice, choose
from nevis_stream.dynamic_evaluation.estimates import Estimates, Population, Widening
from nevis_stream.dynamic_evaluation.fits import (
    FOLDER,
    StoredFit,
    read_for_method,
    staged_context,
    stored_fit,
)
from nevis_stream.dynamic_evaluation.known_models import (
    KnownModels,
    groups_of,
    known_in_cache,
    rank,
    set_prices,
)
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.dynamic_evaluation.methods import count_affordable
from nevis_stream.dynamic_evaluation.policy import Substitutes, also
from nevis_stream.errors import BadInput, RunWarning, plural
from nevis_stream.estimation import intervals
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, append, read_additions
from nevis_stream.evaluation_cache.exchange import (
    CachedOracle,
    TooFewAnswers,
    askable_cells,
    bound_means,
)
from nevis_stream.progress import Progress, Within
from nevis_stream.queries.oracle import NOBODY, Cost, Estimate, Oracle, Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import Part, is_observed, numbers, unknown_cells
from nevis_stream.storage import make_directory


class PartAdder:
    """Adds new models to the part of a cache's samples that has a common mean.

    Args:
      cache: the cache.
      part: the samples.
      place: the part's number; None if it is all samples.
      new: ids of the new models, from which nothing is learned.
    """

    def __init__(self, cache: EvaluationCache, part: Part, place: int | None, new: Sequence[str]):
        self._cache, self._part = cache, part
        self._known, self._accuracies, self._names = known_in_cache(
            cache, part.columns, without=new
        )
        whole = place is None
        # fits and choices of the parts are kept apart
        self._directory = cache.directory if whole else cache.directory / FOLDER / f"part-{place}"
        make_directory(self._directory)
        self._known.groups = groups_of(cache, self._names, self._known.packed_rows())
        self._others: list[PartAdder] = []  # other metrics of the same prompts

    def answer_too(self, other: "PartAdder") -> None:
        """Adds another metric of the same prompts, which the same queries answer."""
        self._others.append(other)

    def add(
        self,
        asks: Mapping[str, Oracle],
        budget: int | Prices,
        method: str | None,
        seed: int,
        provenances: Mapping[str, dict[str, Any]],
        most_flops: float,
        available: Mapping[str, np.ndarray],
        drawn: bool,
        population: Population | None,
        progress: Progress,
        report_choice: Callable[[Choice], None],
        expected: Mapping[str, np.ndarray],
    ) -> list[Addition]:
        """Returns the accounts of the models that are not complete, and then those of other metrics
        of the same prompts; arguments as of `add_models`.

        Args:
          expected: float32[n] by model, into which the values of this part are written.
        """
        columns, known = self._part.columns, self._known
        prices_of_samples = None
        if isinstance(budget, Prices):
            assert method is not None
            prices_of_samples = budget
            set_prices(known, prices_of_samples)
            budget = count_affordable(method, known)
        if available:  # a file may lack some labels of an image
            known.facts = dataclasses.replace(known.facts, image=None)
        image, labels = known.facts.image, len(columns) // known.facts.points
        others = np.array([other._part.columns for other in self._others], np.int64)
        others = others.reshape(-1, len(columns))
        rows = [
            CachedOracle(
                self._cache, model, columns, provenances.get(model, {}), oracle, image, others
            )
            for model, oracle in asks.items()
        ]
        metrics = 1 + len(others)  # cells of a query
        for row in rows:
            expected[row.model][columns] = numbers(row.values)
        rows = [row for row in rows if row.asked < len(columns)]
        if not rows:
            return []
        mask = {
            model: cells[columns] & cells[others].all(axis=0) for model, cells in available.items()
        }
        askable = np.stack([askable_cells(row, mask.get(row.model), budget) for row in rows])
        prices, choice = [row.flops_each for row in rows], None
        additions = read_additions(self._cache.directory)
        if method is None and self._others:
            method = methods.PRICED
        if method is None:
            saved = np.inf if None in prices else sum(prices) * (len(columns) - budget * labels)
            choice = choose(
                self._directory,
                known,
                len(rows),
                budget,
                seed,
                additions,
                most_flops,
                saved,
                Within(progress, "trying"),
            )
            report_choice(choice)
            method = choice.method
        used = methods.within_budget(method).for_known(known)
        if self._others:
            for each in (self, *self._others):
                methods.check_several_metrics(methods.within_budget(method).for_known(each._known))
        used.check(budget, known)
        readable = read_for_method(used, known, len(rows))
        stored = stored_fit(self._directory, used, known, seed, additions)
        warn_of_cost(used, known, prices, budget, stored, "model")
        replaced = Substitutes(known, askable)
        unasked = ~askable

        def oracle(query: Query) -> Responses:
            return replaced.ask_checked(query, lambda inner: _of_rows(rows, inner))

        try:
            estimates, own, evaluator = evaluate(
                stored, readable, oracle, len(rows), budget, seed, progress
            )
        except TooFewAnswers as stopped:
            if stopped.args:
                warnings.warn(str(stopped), RunWarning, stacklevel=3)
            budget = min(row.asked for row in rows) // labels
            if prices_of_samples is not None:
                raise BadInput(
                    "some samples gave no answer, and no other one that is not dearer is left to be"
                    " asked instead; nothing was estimated. What was answered is kept."
                ) from None
            if not budget:
                empty = next(row for row in rows if not row.asked)
                raise BadInput(
                    f"model {empty.model!r} gave no answer to any of the {len(empty.failed)}"
                    " samples that were chosen; nothing was estimated."
                ) from None
            replaced = Substitutes(known, np.stack([is_observed(row.values) for row in rows]))
            estimates, own, evaluator = evaluate(
                stored, readable, oracle, len(rows), budget, seed, progress
            )
        own = dataclasses.replace(own, fit=own.fit + (0 if choice is None else choice.flops))
        models = [row.model for row in rows]
        failed = np.array([len(row.failed) for row in rows])
        if (unasked.any() or not failed.any()) and replaced.counts.any():
            warnings.warn(replaced.message(models), RunWarning, stacklevel=3)
        if failed.any():
            warnings.warn(_failed_message(models, failed), RunWarning, stacklevel=3)
        missing = failed / (failed + np.array([row.asked for row in rows]))
        if not drawn:
            lacking = unasked.mean(axis=1) * (replaced.counts > 0)
            missing = 1 - (1 - missing) * (1 - lacking)
        costs = [
            cost_of(
                [row.asked_before * metrics],
                [len(columns) * metrics],
                [row.flops_each],
                row.cost,
                # as if the models were added one after the other: the first pays for the fit
                own.evaluation // len(rows) + (0 if i else own.fit),
            )
            | _spending(prices_of_samples, row.values)
            for i, row in enumerate(rows)
        ]
        shared = {
            "rows": rows,
            "missing": missing,
            "made_by": {"method": method, "budget": budget, "seed": seed},
            "population": population,
            "expected": expected,
        }
        values = np.stack([row.values for row in rows])
        key = None if choice is None else choice.key
        accounts = self._record(values, estimates, stored.key, costs, **shared, choice=key)
        for number, other in enumerate(self._others):
            values = np.stack([row.other_values[number] for row in rows])
            accounts += other._add_beside(
                evaluator, estimates.answers, values, additions, progress, shared
            )
        return accounts

    def _add_beside(
        self,
        asked: Evaluator,
        answers: Responses,
        values: np.ndarray,
        additions: Sequence[Addition],
        progress: Progress,
        shared: Mapping[str, Any],
    ) -> list[Addition]:
        """Returns the accounts of another metric of the prompts that were asked.

        Args:
          asked, answers: see `Evaluator.predict_beside`.
          values: [m, n], of this metric, unknown where nothing was asked.
          additions: the accounts before.
          progress: is told the stages.
          shared: arguments of `_record`.
        """
        made_by, models = shared["made_by"], len(values)
        used = methods.within_budget(made_by["method"]).for_known(self._known)
        stored = stored_fit(self._directory, used, self._known, made_by["seed"], additions)
        readable = read_for_method(used, self._known, models)
        evaluator, ctx, fit = _fitted(
            stored, readable, made_by["budget"], made_by["seed"], Within(progress, self._part.name)
        )
        given = np.take_along_axis(values, answers.samples, axis=1)
        estimates = evaluator.predict_beside(asked, answers, given, made_by["budget"])
        evaluation = (total(ctx.meter.counts()) - fit) // models
        # the queries are in the account of the metric that was asked
        costs = [
            cost_of(
                *([0], [0], [row.flops_each]),
                Cost(None if row.flops_each is None else 0),
                evaluation + (0 if i else fit),
            )
            for i, row in enumerate(shared["rows"])
        ]
        return self._record(values, estimates, stored.key, costs, **shared)

    def _record(
        self,
        values: np.ndarray,
        estimates: Estimates,
        fit: str,
        costs: Sequence[Mapping[str, Any]],
        *,
        rows: Sequence[CachedOracle],
        missing: np.ndarray,
        made_by: Mapping[str, Any],
        population: Population | None,
        expected: Mapping[str, np.ndarray],
        choice: str | None = None,
    ) -> list[Addition]:
        """Adds predictions to the cache and accounts to its record, and returns the accounts.

        Args:
          values: [m, n], the answers, unknown where there is none.
          estimates: of the m models.
          fit, choice: keys of what was used.
          costs: entries of the accounts.
          rows: what was asked of each model.
          missing: float64[m], the fraction of samples without an answer.
          made_by: method, budget and seed.
          population, expected: as of `add`.
        """
        columns, known = self._part.columns, self._known
        predicted = predicted_only(estimates, values)
        models = [row.model for row in rows]
        self._cache.append_predictions(models, columns, predicted, made_by=dict(made_by))
        widening = None if population is None else Widening(population, known, columns)
        accounts = []
        for i, row in enumerate(rows):
            means, reason = with_missing(estimates[i], missing[i], self._part.unbounded)
            if not self._part.unbounded:
                means = bound_means(values[i], means, known.facts)
            value, low, high = _entries(means)
            best, worst = (low, high) if self._part.lower else (high, low)
            other = estimates[i].other
            answers_or_expected = np.where(is_observed(values[i]), values[i], estimates.values[i])
            if widening is not None:
                of_samples = values[i], answers_or_expected
                value, low, high = _entries(widening.widen(means, *of_samples))
                other = other and tuple(widening.widen(other, *of_samples))
            # the mean of the answered samples has no place among means of all samples
            of_all = missing[i] <= intervals.MOST_MISSING
            place = partial(rank, self._accuracies, part=self._part)
            account = Addition(
                kind="model",
                name=row.model,
                **made_by,
                models=len(self._names),
                samples=len(columns),
                asked=row.asked,
                accuracy=value,
                low=low,
                high=high,
                rank=place(value=value) if of_all else None,
                rank_low=place(value=best),
                rank_high=place(value=worst),
                reason=reason or None,
                fit=fit,
                choice=choice,
                dataset=self._part.name or None,
                lower=self._part.lower or None,
                failed=len(row.failed) or None,
                holds_for=NOBODY if low is None else estimates[i].holds_for,
                note=estimates[i].note or None,
                population=None if population is None else str(population),
                **_other(other),
                **costs[i],
            )
            accounts.append(account)
            append(self._cache.directory, account)
            expected[row.model][columns] = answers_or_expected
        return accounts


def _other(other: tuple[float, float, float] | None) -> dict[str, float | None]:
    """Returns the entries of an account for an estimate that holds for others."""
    values = _entries(other or [np.nan] * 3)
    return dict(zip(("other", "other_low", "other_high"), values, strict=True))


def _entries(means: Sequence[float]) -> list[float | None]:
    """Returns means as an account has them, None where there is none."""
    return [None if np.isnan(mean) else float(mean) for mean in means]


def _spending(prices: Prices | None, values: np.ndarray) -> dict[str, Any]:
    """Returns the entries of an account for a budget in prices of samples, given values [n]."""
    if prices is None:
        return {}
    spending = prices.spending(np.flatnonzero(is_observed(values)))
    return {
        "unit": spending.unit,
        "priced_budget": spending.budget,
        "spent": spending.spent,
        "saved": spending.saved,
    }


def _of_rows(rows: Sequence[CachedOracle], query: Query) -> Responses:
    """Returns the answers of some models, unknown where there is none."""
    parts = [row(Query(samples[None])) for row, samples in zip(rows, query.samples, strict=True)]
    cost = sum((part.cost for part in parts), Cost())
    return Responses(query, np.vstack([part.values for part in parts]), cost)


def _failed_message(models: Sequence[str], failed: np.ndarray) -> str:
    most = int(failed.argmax())
    return (
        f"model {models[most]!r} gave no answer to {plural(int(failed[most]), 'sample')}; no number"
        f" stands for them, and similar samples were asked instead, as far as there are any"
        f"{also(failed)}."
    )


def with_missing(estimate: Estimate, missing: float, unbounded: bool) -> tuple[list[float], str]:
    """Returns value, low and high of an estimate from a sample that is not the designed one, and
    why there is no interval.

    Args:
      estimate: the estimate.
      missing: fraction of the samples without an answer.
      unbounded: whether the metric has no bounds.
    """
    if not missing or np.isnan(estimate.low):
        return [estimate.value, estimate.low, estimate.high], estimate.reason
    (low,), (high,) = intervals.with_missing(
        *(np.array([end]) for end in (estimate.low, estimate.high, missing))
    )
    if unbounded or np.isnan(low):
        return [estimate.value, np.nan, np.nan], intervals.too_many_missing(missing)
    return [estimate.value, low, high], ""


@dataclasses.dataclass(frozen=True)
class OwnCost:
    """FLOPs that a method computed itself: to fit it, and to evaluate new models with the fit."""

    fit: int
    evaluation: int


def evaluate(
    stored: StoredFit,
    known: KnownModels,
    oracle: Oracle,
    new: int,
    budget: int,
    seed: int,
    progress: Progress,
) -> tuple[Estimates, OwnCost, Evaluator]:
    """Returns the estimates of new models, the FLOPs that the method computed itself, and the
    fitted method.
    """
    evaluator, ctx, fit = _fitted(stored, known, budget, seed, progress)
    _, evaluation_key = jax.random.split(jax.random.key(seed))
    estimates = evaluator.evaluate(oracle, new, budget, evaluation_key)
    return estimates, OwnCost(fit, total(ctx.meter.counts()) - fit), evaluator


def _fitted(
    stored: StoredFit, known: KnownModels, budget: int, seed: int, progress: Progress
) -> tuple[Evaluator, Compute, int]:
    """Returns the fitted method, the context that counts its FLOPs, and those of the fit."""
    if stored.outdated:
        progress.stage("the stored fit is of other known models or another seed; fitting anew")
    ctx = staged_context(progress)
    fit_key, _ = jax.random.split(jax.random.key(seed))
    evaluator = stored.evaluator(known, budget, fit_key, ctx)
    return evaluator, ctx, total(ctx.meter.counts())


def predicted_only(estimates: Estimates, values: np.ndarray) -> np.ndarray:
    """Returns the predictions of estimates, unknown where a value, [m, n], is observed."""
    scores = values.dtype.kind == "f"
    predicted = estimates.values if scores else estimates.outcomes
    return np.where(is_observed(values), unknown_cells((), scores), predicted)


def warn_of_cost(
    method: Method,
    known: KnownModels,
    prices: Sequence[float | None],
    budget: int,
    stored: StoredFit,
    kind: str,
) -> None:
    """Warns if a method will cost more than it saves and the prices of answers are known."""
    if None in prices or budget == known.facts.points:
        return
    if message := predicted_cost.warning(method, known, prices, budget, stored.tree, kind):
        warnings.warn(message, RunWarning, stacklevel=3)


def cost_of(
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
