"""Adds models to one part of a cache's samples, those that have a common mean: some of them are
asked, the others predicted, and the cost is accounted for.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import methods, predicted_cost
from nevis_stream.dynamic_evaluation.choice import Choice, choose
from nevis_stream.dynamic_evaluation.estimates import (
    Estimates,
    Population,
    Widening,
    allow_for_missing,
    drop_observed,
)
from nevis_stream.dynamic_evaluation.fits import (
    FOLDER,
    OwnCost,
    StoredFit,
    compute_cost,
    evaluate,
    find_fit,
    prepare_evaluator,
    read_for_method,
)
from nevis_stream.dynamic_evaluation.known_models import (
    KnownModels,
    rank_model,
    read_known,
    set_prices,
)
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.dynamic_evaluation.methods import count_affordable
from nevis_stream.dynamic_evaluation.policy import Substitutes, mention_others
from nevis_stream.errors import BadInput, RunWarning, plural
from nevis_stream.estimation import intervals
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, append, read_additions
from nevis_stream.evaluation_cache.exchange import (
    CachedOracle,
    TooFewAnswers,
    bound_means,
    find_askable_cells,
)
from nevis_stream.evaluation_cache.facts import read_groups
from nevis_stream.progress import Progress, Within
from nevis_stream.queries.oracle import NOBODY, Cost, Oracle, Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import Part, fill_unknown, is_observed
from nevis_stream.storage import make_directory


class _Evaluation(NamedTuple):
    """Estimates, and what they were made with.

    Attributes:
      estimates, own, evaluator: as `evaluate` returns them.
      budget: samples of each model; fewer than wanted if too few gave an answer.
      substitutes: chose the samples that were asked instead of others.
    """

    estimates: Estimates
    own: OwnCost
    evaluator: Evaluator
    budget: int
    substitutes: Substitutes


class PartAdder:
    """Adds new models to the part of a cache's samples that has a common mean.

    Args:
      cache: the cache.
      part: the samples.
      number: of the part; None if it is all samples.
      new: ids of the new models, from which nothing is learned.
    """

    def __init__(self, cache: EvaluationCache, part: Part, number: int | None, new: Sequence[str]):
        self._cache, self._part = cache, part
        self._known, self._accuracies, self._names = read_known(cache, part.columns, without=new)
        whole = number is None
        # fits and choices of the parts are kept apart
        self._directory = cache.directory if whole else cache.directory / FOLDER / f"part-{number}"
        make_directory(self._directory)
        self._known.groups = read_groups(cache, self._names, self._known.packed_rows())
        self._other_metrics: list[PartAdder] = []  # of the same prompts

    def add_metric(self, other: "PartAdder") -> None:
        """Adds another metric of the same prompts, which the same queries answer."""
        self._other_metrics.append(other)

    def add(
        self,
        oracles: Mapping[str, Oracle],
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
        """Returns the additions of the models that are not complete, and then those of other
        metrics of the same prompts; arguments as of `add_models`.

        Args:
          expected: float32[n] by model, into which the values of this part are written.
        """
        known, prices = self._known, budget if isinstance(budget, Prices) else None
        if isinstance(budget, Prices):
            assert method is not None
            set_prices(known, budget)
            budget = count_affordable(method, known)
        if available:  # a file may lack some labels of an image
            known.facts = dataclasses.replace(known.facts, image=None)
        rows = self._make_oracles(oracles, provenances, expected)
        if not rows:
            return []
        additions, choice = read_additions(self._cache.directory), None
        if method is None and self._other_metrics:
            method = methods.DEFAULT_FOR_ANY_MODEL
        if method is None:
            choice = self._choose(rows, budget, seed, additions, most_flops, progress)
            report_choice(choice)
            method = choice.method
        used = self._check_method(method, budget)
        stored = find_fit(self._directory, used, known, seed, additions)
        warn_of_cost(used, known, [row.flops_each for row in rows], budget, stored, "model")
        askable = self._find_askable(rows, available, budget)
        evaluated = self._ask(stored, used, rows, askable, budget, seed, progress)
        shared = {
            "rows": rows,
            "missing": _compute_missing(rows, askable, evaluated.substitutes, drawn),
            "made_by": {"method": method, "budget": evaluated.budget, "seed": seed},
            "population": population,
            "expected": expected,
        }
        own, key = evaluated.own, None
        if choice is not None:
            own, key = dataclasses.replace(own, fit=own.fit + choice.flops), choice.key
        costs = self._count_costs(rows, own, prices)
        values = np.stack([row.values for row in rows])
        added = self._record(values, evaluated.estimates, stored.key, costs, **shared, choice=key)
        for number, other in enumerate(self._other_metrics):
            values = np.stack([row.other_values[number] for row in rows])
            added += other._add_beside(
                evaluated.evaluator,
                evaluated.estimates.answers,
                values,
                additions,
                progress,
                shared,
            )
        return added

    @property
    def _other_columns(self) -> np.ndarray:
        """The columns of the other metrics, int64[k, n]."""
        columns = np.array([other._part.columns for other in self._other_metrics], np.int64)
        return columns.reshape(-1, len(self._part.columns))

    def _make_oracles(
        self,
        oracles: Mapping[str, Oracle],
        provenances: Mapping[str, dict[str, Any]],
        expected: Mapping[str, np.ndarray],
    ) -> list[CachedOracle]:
        """Returns an oracle of each model that is not observed on all samples already; what is
        observed is written into `expected`.
        """
        columns, image = self._part.columns, self._known.facts.image
        rows = []
        for model, oracle in oracles.items():
            facts = provenances.get(model, {})
            row = CachedOracle(
                self._cache, model, columns, facts, oracle, image, self._other_columns
            )
            expected[model][columns] = fill_unknown(row.values)
            if row.observed < len(columns):
                rows.append(row)
        return rows

    def _find_askable(
        self, rows: Sequence[CachedOracle], available: Mapping[str, np.ndarray], budget: int
    ) -> np.ndarray:
        """Returns the samples on which each model can be asked, bool[m, n]."""
        columns, others = self._part.columns, self._other_columns
        mask = {
            model: cells[columns] & cells[others].all(axis=0) for model, cells in available.items()
        }
        return np.stack([find_askable_cells(row, mask.get(row.model), budget) for row in rows])

    def _choose(
        self,
        rows: Sequence[CachedOracle],
        budget: int,
        seed: int,
        additions: Sequence[Addition],
        most_flops: float,
        progress: Progress,
    ) -> Choice:
        """Returns the method that suits the known models and the budget."""
        flops_each, known = [row.flops_each for row in rows], self._known
        cells = len(self._part.columns) - budget * self._columns_per_query
        saved = np.inf if None in flops_each else sum(flops_each) * cells
        trying = Within(progress, "trying")
        return choose(
            *(self._directory, known, len(rows), budget, seed, additions, most_flops, saved, trying)
        )

    @property
    def _columns_per_query(self) -> int:
        """The number of columns that one query answers."""
        return len(self._part.columns) // self._known.facts.points

    def _check_method(self, name: str, budget: int) -> Method:
        """Returns the method of a name as it is for the known models, if it can be used."""
        method = methods.get_within_budget(name)
        if self._other_metrics:
            for each in (self, *self._other_metrics):
                methods.check_several_metrics(method.choose_for_known(each._known))
        used = method.choose_for_known(self._known)
        used.check(budget, self._known)
        return used

    def _ask(
        self,
        stored: StoredFit,
        method: Method,
        rows: Sequence[CachedOracle],
        askable: np.ndarray,
        budget: int,
        seed: int,
        progress: Progress,
    ) -> _Evaluation:
        """Asks the samples that the method chooses and estimates the rest. If some give no answer
        and no other one is left, it estimates from those that gave one.

        Args:
          stored, method, budget, seed, progress: as of `evaluate`.
          rows: the oracles of the m models.
          askable: bool[m, n], on which samples each can be asked.
        """
        known = self._known
        readable = read_for_method(method, known, len(rows))

        def try_with(substitutes: Substitutes, budget: int) -> _Evaluation:
            def oracle(query: Query) -> Responses:
                return substitutes.ask_with_substitutes(query, lambda inner: _ask_rows(rows, inner))

            evaluated = evaluate(stored, readable, oracle, len(rows), budget, seed, progress)
            return _Evaluation(*evaluated, budget, substitutes)

        try:
            return try_with(Substitutes(known, askable), budget)
        except TooFewAnswers as stopped:
            if stopped.args:
                warnings.warn(str(stopped), RunWarning, stacklevel=4)
        if known.facts.prices is not None:
            raise BadInput(
                "some samples gave no answer, and no other one that is not dearer is left to be"
                " asked instead; nothing was estimated. What was answered is kept."
            )
        if not (fewer := min(row.observed for row in rows) // self._columns_per_query):
            empty = next(row for row in rows if not row.observed)
            raise BadInput(
                f"model {empty.model!r} gave no answer to any of the {len(empty.failed)} samples"
                " that were chosen; nothing was estimated."
            )
        answered = np.stack([is_observed(row.values) for row in rows])
        return try_with(Substitutes(known, answered), fewer)

    def _count_costs(
        self, rows: Sequence[CachedOracle], own: OwnCost, prices: Prices | None
    ) -> list[dict[str, Any]]:
        """Returns the entries of each addition for its costs."""
        metrics, cells = 1 + len(self._other_metrics), len(self._part.columns)
        return [
            compute_cost(
                [row.observed_before * metrics],
                [cells * metrics],
                [row.flops_each],
                row.cost,
                # as if the models were added one after the other: the first pays for the fit
                own.evaluation // len(rows) + (0 if i else own.fit),
            )
            | _format_spending(prices, row.values)
            for i, row in enumerate(rows)
        ]

    def _add_beside(
        self,
        beside: Evaluator,
        answers: Responses,
        values: np.ndarray,
        additions: Sequence[Addition],
        progress: Progress,
        shared: Mapping[str, Any],
    ) -> list[Addition]:
        """Returns the additions of another metric of the prompts that were asked.

        Args:
          beside, answers: see `Evaluator.predict_beside`.
          values: [m, n], of this metric, unknown where nothing was asked.
          additions: those before.
          progress: is told the stages.
          shared: arguments of `_record`.
        """
        made_by, models = shared["made_by"], len(values)
        used = methods.get_within_budget(made_by["method"]).choose_for_known(self._known)
        stored = find_fit(self._directory, used, self._known, made_by["seed"], additions)
        readable = read_for_method(used, self._known, models)
        evaluator, ctx, fit = prepare_evaluator(
            stored, readable, made_by["budget"], made_by["seed"], Within(progress, self._part.name)
        )
        given = np.take_along_axis(values, answers.samples, axis=1)
        estimates = evaluator.predict_beside(beside, answers, given, made_by["budget"])
        evaluation = (total(ctx.meter.counts()) - fit) // models
        # the queries are in the record of the metric that was asked
        costs = [
            compute_cost(
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
        """Adds predictions to the cache and additions to its record, and returns these.

        Args:
          values: [m, n], the answers, unknown where there is none.
          estimates: of the m models.
          fit, choice: keys of what was used.
          costs: entries of the records.
          rows: the models' oracles, with what was asked.
          missing: float64[m], the fraction of samples without an answer.
          made_by: method, budget and seed.
          population, expected: as of `add`.
        """
        columns, known = self._part.columns, self._known
        predicted = drop_observed(estimates, values)
        models = [row.model for row in rows]
        self._cache.append_predictions(models, columns, predicted, made_by=dict(made_by))
        widening = None if population is None else Widening(population, known, columns)
        added = []
        for i, row in enumerate(rows):
            means, reason = allow_for_missing(estimates[i], missing[i], self._part.unbounded)
            if not self._part.unbounded:
                means = bound_means(values[i], means, known.facts)
            value, low, high = _format_means(means)
            best, worst = (low, high) if self._part.lower else (high, low)
            other = estimates[i].other
            answers_or_expected = np.where(is_observed(values[i]), values[i], estimates.values[i])
            if widening is not None:
                of_samples = values[i], answers_or_expected
                value, low, high = _format_means(widening.widen(means, *of_samples))
                other = other and tuple(widening.widen(other, *of_samples))
            # the mean of the answered samples has no place among means of all samples
            is_ranked = missing[i] <= intervals.MOST_MISSING
            place = partial(rank_model, self._accuracies, part=self._part)
            addition = Addition(
                kind="model",
                name=row.model,
                **made_by,
                models=len(self._names),
                samples=len(columns),
                asked=row.observed,
                accuracy=value,
                low=low,
                high=high,
                rank=place(value=value) if is_ranked else None,
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
                **_format_other(other),
                **costs[i],
            )
            added.append(addition)
            append(self._cache.directory, addition)
            expected[row.model][columns] = answers_or_expected
        return added


def _format_other(other: tuple[float, float, float] | None) -> dict[str, float | None]:
    """Returns the entries of a record for an estimate that holds for other new models."""
    values = _format_means(other or [np.nan] * 3)
    return dict(zip(("other", "other_low", "other_high"), values, strict=True))


def _format_means(means: Sequence[float]) -> list[float | None]:
    """Returns means as a record has them, None where there is none."""
    return [None if np.isnan(mean) else float(mean) for mean in means]


def _format_spending(prices: Prices | None, values: np.ndarray) -> dict[str, Any]:
    """Returns the entries of a record for a budget in prices of samples, given values [n]."""
    if prices is None:
        return {}
    spending = prices.compute_spending(np.flatnonzero(is_observed(values)))
    return {
        "unit": spending.unit,
        "priced_budget": spending.budget,
        "spent": spending.spent,
        "saved": spending.saved,
    }


def _ask_rows(rows: Sequence[CachedOracle], query: Query) -> Responses:
    """Returns the answers of some models, unknown where there is none."""
    parts = [row(Query(samples[None])) for row, samples in zip(rows, query.samples, strict=True)]
    cost = sum((part.cost for part in parts), Cost())
    return Responses(query, np.vstack([part.values for part in parts]), cost)


def _compute_missing(
    rows: Sequence[CachedOracle], askable: np.ndarray, substitutes: Substitutes, drawn: bool
) -> np.ndarray:
    """Returns the fraction of samples of each model without an answer, float64[m], after a warning
    if others were asked in their place.

    Args:
      rows: what was asked of each model.
      askable: bool[m, n], the samples on which a model could be asked.
      substitutes: chose the samples that were asked instead of others.
      drawn: whether the samples that can be asked were drawn at random from all.
    """
    models, failed = [row.model for row in rows], np.array([len(row.failed) for row in rows])
    if (not askable.all() or not failed.any()) and substitutes.counts.any():
        warnings.warn(substitutes.describe(models), RunWarning, stacklevel=4)
    if failed.any():
        warnings.warn(_describe_failed(models, failed), RunWarning, stacklevel=4)
    missing = failed / (failed + np.array([row.observed for row in rows]))
    if not drawn:
        lacking = (~askable).mean(axis=1) * (substitutes.counts > 0)
        missing = 1 - (1 - missing) * (1 - lacking)
    return missing


def _describe_failed(models: Sequence[str], failed: np.ndarray) -> str:
    most = int(failed.argmax())
    return (
        f"model {models[most]!r} gave no answer to {plural(int(failed[most]), 'sample')}; no number"
        f" stands for them, and similar samples were asked instead, as far as there are any"
        f"{mention_others(failed)}."
    )


def warn_of_cost(
    method: Method,
    known: KnownModels,
    flops_each: Sequence[float | None],
    budget: int,
    stored: StoredFit,
    kind: str,
) -> None:
    """Warns if a method will cost more than it saves and the FLOPs of answers are known."""
    if None in flops_each or budget == known.facts.points:
        return
    if message := predicted_cost.describe_cost_warning(
        method, known, flops_each, budget, stored.tree, kind
    ):
        warnings.warn(message, RunWarning, stacklevel=3)
