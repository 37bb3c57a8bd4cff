"""New models are asked a few samples, and their means are estimated: the one flow behind
`evaluate`, and behind what is added to a cache.

Where data sets differ in direction or range they have no common mean: the method is used on each of
them on its own. Where prompts have several metrics, samples are chosen by the first one, and each
query answers all.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import methods, predicted_cost
from nevis_stream.dynamic_evaluation.estimates import (
    Estimates,
    Population,
    drop_observed,
    finish_estimate,
)
from nevis_stream.dynamic_evaluation.fits import (
    Fits,
    OwnCost,
    StoredFit,
    compute_cost,
    evaluate,
    find_fit,
    make_staged_context,
    prepare_evaluator,
    read_for_method,
)
from nevis_stream.dynamic_evaluation.known_models import rank_model, read_known, set_prices
from nevis_stream.dynamic_evaluation.method import UNCOUNTED, Evaluator, Method
from nevis_stream.dynamic_evaluation.methods import count_affordable
from nevis_stream.dynamic_evaluation.policy import Substitutes, mention_others
from nevis_stream.errors import BadInput, RunWarning, plural
from nevis_stream.estimation import intervals
from nevis_stream.progress import SILENT, Progress, Within
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import (
    MOST_WITHOUT_ANSWER,
    Cost,
    Estimate,
    Oracle,
    Query,
    Responses,
    TooFewAnswers,
    ask_checked,
    check_budget,
)
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import (
    Part,
    SampleFacts,
    fill_unknown,
    is_observed,
    make_unknown_cells,
    with_all_labels,
)
from nevis_stream.seeds import LEAST, check_seed


class AskedModel:
    """An `Oracle` for one new model on some samples: what is known of it is read, the rest asked.

    Args:
      name: the model's id.
      columns: int64[n], the samples that take part, in the matrix of all.
      oracle: answers for the model: takes columns of that matrix.
      scores: whether values are scores instead of outcomes.
      image: of each column (see `SampleFacts`), or None; all columns of an image are asked and kept
        together.
      others: int64[k, n], the columns of other metrics of the same prompts, which are asked and
        kept together with them; a prompt that lacks one of them counts as without an answer.
      row: of the model in the matrix of all, [N], unknown where it was not observed; None: nowhere.
      keep: is given what was answered at once: columns, and the answers.
      get_flops_each: returns the FLOPs of one answer; None: they are not known.

    Attributes:
      values: uint8[n] or float32[n], the observed values; 255 or NaN where unknown.
      other_values: [k, n], those of the other metrics.
      failed: places among the n samples of those without an answer: they were asked, or would have
        been asked next.
      observed_before: number of cells that were observed before.
      cost: of everything that was asked.
    """

    def __init__(
        self,
        name: str,
        columns: np.ndarray,
        oracle: Oracle,
        scores: bool,
        *,
        image: np.ndarray | None = None,
        others: np.ndarray | None = None,
        row: np.ndarray | None = None,
        keep: Callable[[np.ndarray, Responses], None] = lambda columns, answers: None,
        get_flops_each: Callable[[], float | None] = lambda: None,
    ):
        self.name, self.cost, self.failed = name, Cost(), set[int]()
        self._columns, self._oracle, self._scores, self._image = columns, oracle, scores, image
        self._others = np.empty((0, len(columns)), np.int64) if others is None else others
        self._keep, self._get_flops_each = keep, get_flops_each
        self._failures = 0  # in a row
        self.values = make_unknown_cells((len(columns),), scores)
        self.other_values = make_unknown_cells(self._others.shape, scores)
        if row is not None:
            self.other_values = row[self._others]
            whole = is_observed(self.other_values).all(axis=0)
            self.values = np.where(whole, row[columns], make_unknown_cells((), scores))
        self.observed_before = self.observed

    @property
    def observed(self) -> int:
        """Number of observed cells."""
        return int(np.count_nonzero(is_observed(self.values)))

    @property
    def flops_each(self) -> float | None:
        """FLOPs of one answer, if they are known."""
        return self._get_flops_each()

    def __call__(self, query: Query) -> Responses:
        """Returns the values on the samples of a query, int64[1, b], unknown where there is no
        answer, and the cost of those that had to be asked.

        Raises:
          TooFewAnswers: too many samples in a row have no answer; what was answered is kept.
        """
        (samples,), cost = query.samples, Cost()
        new = samples[~is_observed(self.values[samples])]
        if len(new):
            if self._image is not None:
                new = with_all_labels(new, self._image)
                new = new[~is_observed(self.values[new])]
            columns = np.concatenate([self._columns[new], *self._others[:, new]])
            answers = ask_checked(self._oracle, Query(columns[None]), self._scores)
            cost, values = answers.cost, answers.values[0]
            known = is_observed(values)
            whole = known.reshape(-1, len(new)).all(axis=0)
            self.failed |= set(new[~whole].tolist())
            if known.any():
                self._keep(columns, answers)
            self.values[new[whole]] = values[: len(new)][whole]
            self.other_values[:, new] = values.reshape(-1, len(new))[1:]
            self.cost += cost
            answered_last = np.flatnonzero(whole)
            self._failures += len(new)
            if len(answered_last):
                self._failures = len(new) - 1 - int(answered_last[-1])
            if self._failures >= MOST_WITHOUT_ANSWER:
                raise TooFewAnswers(
                    f"model {self.name!r} had no answer to {MOST_WITHOUT_ANSWER} samples in a row,"
                    " so it is not asked any more. What it answered is kept; the same command"
                    " continues."
                )
        return Responses(query, self.values[samples][None], cost)

    def find_askable_cells(self, available: np.ndarray | None, budget: int) -> np.ndarray:
        """Returns on which samples the model can be asked, or has been observed, bool[n].

        Args:
          available: bool[n], where an answer can be had; None: everywhere.
          budget: number of samples.

        Raises:
          BadInput: these are fewer than the budget.
        """
        if available is None:
            return np.ones(len(self.values), bool)
        cells = available | is_observed(self.values)
        if (count := int(cells.sum())) < budget:
            raise BadInput(
                f"model {self.name!r} has values on {count:,} of the cache's {len(cells):,}"
                f" samples, fewer than the budget of {budget:,}."
            )
        return cells


MakeRow = Callable[[str, Part, np.ndarray | None, np.ndarray], AskedModel]
"""Takes a new model's id, samples, the image of each or None, and the columns of other metrics of
the same prompts, int64[k, n]; returns what answers for the model on them."""


@dataclass(frozen=True)
class NewModel:
    """A new model on samples with a common mean, after its answers.

    Attributes:
      name: the model's id.
      part: the samples.
      estimate: of its mean, from 0 to 1; its cost is of the method.
      ranks: its place among the known models, 1 is the best, and the places at the better and at
        the worse end of the interval over these samples; None where it is unknown.
      values: [n], the answers, unknown where there is none.
      predicted: [n], the predicted outcomes or scores; unknown where a value is observed.
      made_by: method, budget and seed.
      fit: the key of the fit that was used.
      known: number of known models.
      costs: FLOPs, see `compute_cost`.
    """

    name: str
    part: Part
    estimate: Estimate
    ranks: tuple[int | None, int | None, int | None]
    values: np.ndarray
    predicted: np.ndarray
    made_by: Mapping[str, Any]
    fit: str
    known: int
    costs: Mapping[str, Any]


@dataclass(frozen=True)
class Asking:
    """How new models are asked.

    Attributes:
      budget: number of samples to observe of each model; in a multi-label data set of images, each
        of which is observed on all of its labels. Or prices of the samples with a budget in their
        unit: then the method is one that takes prices, by default `DEFAULT_WITH_PRICES`.
      method: name of a method, or POLICY+PREDICTOR; None: `methods.DEFAULT`.
      seed: of the method's random choices.
      available: bool[N], by the id of a model, the samples on which it can be asked; others are
        replaced by similar ones (see `Substitutes`). A model without an entry can be asked on all.
      drawn: whether the available samples were drawn at random from all; otherwise, if similar ones
        had to be asked, the interval allows for any values of the others, and there is none if they
        are many.
      population: that the samples are drawn from, if intervals are of the mean over it; None: over
        these samples. Ranks are always by the mean over these.
      progress: is told the stages.
    """

    budget: int | Prices
    method: str | None = None
    seed: int = 0
    available: Mapping[str, np.ndarray] | None = None
    drawn: bool = False
    population: Population | None = None
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed, LEAST))


def evaluate_new_models(
    matrix: Matrix,
    names: Sequence[str],
    make_row: MakeRow,
    fits: Fits,
    how: Asking,
    place: str = "this board",
    report_values: Callable[[str, np.ndarray], None] = lambda model, values: None,
    record: Callable[[Sequence[NewModel]], None] = lambda models: None,
) -> list[NewModel]:
    """Evaluates new models on a few samples.

    An answer that is unknown is never a number: see `oracle.ask_checked` and `Substitutes`.

    Args:
      matrix: the models, of which nothing is learned from the new ones.
      names: of the new models.
      make_row: makes what answers for a model.
      fits: to these known models.
      how: they are asked.
      place: of the matrix, for messages.
      report_values: called with each model's name and values, float32[N]: the observed ones, and
        the expected ones of the other samples.
      record: called with the new models on each part of the samples, once they are estimated.

    Raises:
      BadInput: there is no known model, the method is unknown, or the budget is not valid or above
        the number of samples on which a model can be asked.
    """
    if how.method is not None:
        methods.get_within_budget(how.method)  # a wrong name is an error before anything is read
    facts, samples = matrix.facts, matrix.shape[1]
    budgets: Sequence[int | Prices]
    if isinstance(how.budget, Prices):
        check_can_be_priced(facts)
        how = dataclasses.replace(how, method=how.method or methods.DEFAULT_WITH_PRICES)
        budgets = [how.budget]
    else:
        check_budget(
            how.budget, samples if how.available and facts.prompt is None else facts.points
        )
        budgets = _divide_budget(how.budget, facts)
    asked: dict[int, _PartOfModels] = {}
    for number, part in enumerate(facts.parts):
        known = read_known(matrix, part.columns, names, place=place)
        one = _PartOfModels(known, part, fits.part(number if part.name else None))
        if part.asked_with is None:
            asked[number] = one
        else:
            asked[part.asked_with].other_metrics.append(one)
    expected = {name: np.full(samples, np.nan, np.float32) for name in names}
    found: list[NewModel] = []
    for one, budget in zip(asked.values(), budgets, strict=True):
        for models in one.evaluate(names, make_row, budget, how, expected):
            record(models)
            found += models
    for name, values in expected.items():
        report_values(name, values)
    return found


def check_can_be_priced(facts: SampleFacts) -> None:
    """Refuses prices of samples that have no common mean, or are labels of one image."""
    if len(facts.parts) > 1 or facts.image is not None:
        raise BadInput(
            "a budget in a unit of price needs samples with a common mean, of which each is asked"
            " on its own: data sets of one direction and range, without several labels of an image."
            " Give a number of samples."
        )


def _divide_budget(budget: int, facts: SampleFacts) -> list[int]:
    """Returns the budget of each part that is asked, in proportion to its samples, at least 1.

    Raises:
      BadInput: the budget is smaller than the number of parts.
    """
    parts = [part for part in facts.parts if part.asked_with is None]
    if len(parts) == 1:
        return [budget]
    if budget < len(parts):
        raise BadInput(
            f"a budget of {budget}: the {len(parts)} data sets differ in direction or range, so"
            " that each is estimated on its own and needs at least one sample."
        )
    sizes = np.array([len(part.columns) for part in parts])
    exact = budget * sizes / sizes.sum()
    budgets = np.clip(exact.astype(np.int64), 1, sizes)
    while (rest := budget - int(budgets.sum())) != 0:
        lacking = np.where(budgets < sizes, exact - budgets, -np.inf)
        over = np.where(budgets > 1, budgets - exact, -np.inf)
        budgets[int(lacking.argmax() if rest > 0 else over.argmax())] += np.sign(rest)
    return budgets.tolist()


class _Answered(NamedTuple):
    """Estimates, and what they were made with.

    Attributes:
      estimates, own, evaluator: as `fits.evaluate` returns them.
      budget: samples of each model; fewer than wanted if too few gave an answer.
      substitutes: chose the samples that were asked instead of others.
    """

    estimates: Estimates
    own: OwnCost
    evaluator: Evaluator
    budget: int
    substitutes: Substitutes


class _PartOfModels:
    """Evaluates new models on samples with a common mean.

    Args:
      known: the known models on them.
      part: the samples.
      fits: to these known models.

    Attributes:
      other_metrics: of the same prompts, which the same queries answer.
    """

    def __init__(self, known: Matrix, part: Part, fits: Fits):
        self._known, self._part, self._fits = known, part, fits
        self.other_metrics: list[_PartOfModels] = []

    def evaluate(
        self,
        names: Sequence[str],
        make_row: MakeRow,
        budget: int | Prices,
        how: Asking,
        expected: Mapping[str, np.ndarray],
    ) -> list[list[NewModel]]:
        """Returns the models that are not complete; then the same on each other metric of the same
        prompts. Arguments as of `evaluate_new_models`.

        Args:
          expected: float32[N] by model, into which the values of this part are written.
        """
        known, prices = self._known, budget if isinstance(budget, Prices) else None
        part, progress = self._part, how.progress
        if part.name:
            progress = Within(progress, part.name)
        if isinstance(budget, Prices):
            assert how.method is not None
            set_prices(known, budget)
            budget = count_affordable(how.method, known)
        if how.available:  # a file may lack some labels of an image
            known.facts = dataclasses.replace(known.facts, image=None)
        rows = [make_row(name, part, known.facts.image, self._other_columns) for name in names]
        for row in rows:
            expected[row.name][part.columns] = fill_unknown(row.values)
        rows = [row for row in rows if row.observed < len(part.columns)]
        if not rows:
            return []
        name = how.method or methods.DEFAULT
        used = self._check_method(name, budget)
        stored = find_fit(self._fits, used, known, how.seed)
        warn_of_cost(used, known, [row.flops_each for row in rows], budget, stored, "model")
        askable = self._find_askable(rows, how.available or {}, budget)
        found = self._ask(stored, used, rows, askable, budget, how.seed, progress)
        finish = partial(
            _finish,
            rows=rows,
            missing=_compute_missing(rows, askable, found.substitutes, how.drawn),
            made_by={"method": name, "budget": found.budget, "seed": how.seed},
            population=how.population,
            expected=expected,
        )
        values = np.stack([row.values for row in rows])
        costs = self._count_costs(rows, found.own)
        first = finish(self, values, found.estimates, stored.key, costs, prices=prices)
        return [first] + [
            other._evaluate_beside(found, rows, number, name, how, finish)
            for number, other in enumerate(self.other_metrics)
        ]

    @property
    def _other_columns(self) -> np.ndarray:
        """The columns of the other metrics, int64[k, n]."""
        columns = np.array([other._part.columns for other in self.other_metrics], np.int64)
        return columns.reshape(-1, len(self._part.columns))

    @property
    def _columns_per_query(self) -> int:
        """The number of columns that one query answers."""
        return len(self._part.columns) // self._known.facts.points

    def _find_askable(
        self, rows: Sequence[AskedModel], available: Mapping[str, np.ndarray], budget: int
    ) -> np.ndarray:
        """Returns the samples on which each model can be asked, bool[m, n]."""
        columns, others = self._part.columns, self._other_columns
        mask = {
            model: cells[columns] & cells[others].all(axis=0) for model, cells in available.items()
        }
        return np.stack([row.find_askable_cells(mask.get(row.name), budget) for row in rows])

    def _check_method(self, name: str, budget: int) -> Method:
        """Returns the method of a name as it is for the known models, if it can be used."""
        method = methods.get_within_budget(name)
        if self.other_metrics:
            for each in (self, *self.other_metrics):
                methods.check_several_metrics(method.choose_for_known(each._known))
        used = method.choose_for_known(self._known)
        used.check(budget, self._known)
        return used

    def _ask(
        self,
        stored: StoredFit,
        method: Method,
        rows: Sequence[AskedModel],
        askable: np.ndarray,
        budget: int,
        seed: int,
        progress: Progress,
    ) -> _Answered:
        """Asks the samples that the method chooses and estimates the rest. If some give no answer
        and no other one is left, it estimates from those that gave one.

        Args:
          stored, method, budget, seed, progress: as of `fits.evaluate`.
          rows: the oracles of the m models.
          askable: bool[m, n], on which samples each can be asked.
        """
        known = self._known
        readable = read_for_method(method, known, len(rows))

        def try_with(substitutes: Substitutes, budget: int) -> _Answered:
            def oracle(query: Query) -> Responses:
                return substitutes.ask_with_substitutes(query, lambda inner: _ask_rows(rows, inner))

            evaluated = evaluate(stored, readable, oracle, len(rows), budget, seed, progress)
            return _Answered(*evaluated, budget, substitutes)

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
                f"model {empty.name!r} gave no answer to any of the {len(empty.failed)} samples"
                " that were chosen; nothing was estimated."
            )
        answered = np.stack([is_observed(row.values) for row in rows])
        return try_with(Substitutes(known, answered), fewer)

    def _count_costs(self, rows: Sequence[AskedModel], own: OwnCost) -> list[dict[str, Any]]:
        """Returns the costs of each model."""
        metrics, cells = 1 + len(self.other_metrics), len(self._part.columns)
        return [
            compute_cost(
                [row.observed_before * metrics],
                [cells * metrics],
                [row.flops_each],
                row.cost,
                # as if the models were added one after the other: the first pays for the fit
                own.evaluation // len(rows) + (0 if i else own.fit),
            )
            for i, row in enumerate(rows)
        ]

    def _evaluate_beside(
        self,
        asked: _Answered,
        rows: Sequence[AskedModel],
        number: int,
        method: str,
        how: Asking,
        finish: Callable[..., list[NewModel]],
    ) -> list[NewModel]:
        """Returns the models on this metric of the prompts that were asked for another one.

        Args:
          asked: what was found of that metric.
          rows: the models.
          number: of this metric among the others.
          method, how: they were asked.
          finish: makes the result, see `_finish`.
        """
        used = methods.get_within_budget(method).choose_for_known(self._known)
        stored = find_fit(self._fits, used, self._known, how.seed)
        readable = read_for_method(used, self._known, len(rows))
        evaluator, ctx, fit = prepare_evaluator(
            stored, readable, asked.budget, how.seed, Within(how.progress, self._part.name)
        )
        values, answers = (
            np.stack([row.other_values[number] for row in rows]),
            asked.estimates.answers,
        )
        given = np.take_along_axis(values, answers.samples, axis=1)
        estimates = evaluator.predict_beside(asked.evaluator, answers, given, asked.budget)
        evaluation = (total(ctx.meter.counts()) - fit) // len(rows)
        # the queries are in the costs of the metric that was asked
        costs = [
            compute_cost(
                *([0], [0], [row.flops_each]),
                Cost(None if row.flops_each is None else 0),
                evaluation + (0 if i else fit),
            )
            for i, row in enumerate(rows)
        ]
        return finish(self, values, estimates, stored.key, costs)


def _finish(
    of: _PartOfModels,
    values: np.ndarray,
    estimates: Estimates,
    fit: str,
    costs: Sequence[Mapping[str, Any]],
    *,
    rows: Sequence[AskedModel],
    missing: np.ndarray,
    made_by: Mapping[str, Any],
    population: Population | None,
    expected: Mapping[str, np.ndarray],
    prices: Prices | None = None,
) -> list[NewModel]:
    """Returns what is known of the m models of `rows`.

    Args:
      of: the samples and the known models.
      values: [m, n], the answers, unknown where there is none.
      estimates: of the m models.
      fit: the key of what was used.
      costs: of each model.
      missing: float64[m], the fraction of samples without an answer.
      made_by: method, budget and seed.
      population, expected: as of `_PartOfModels.evaluate`.
      prices: of the samples, if the budget is in their unit.
    """
    part, known = of._part, of._known
    predicted, means, found = drop_observed(estimates, values), known.means(), []
    for i, row in enumerate(rows):
        cells = np.where(is_observed(values[i]), values[i], estimates.values[i])
        of_samples, estimate = finish_estimate(
            estimates[i], known, part, values[i], cells, missing[i], population
        )
        ends = of_samples.low, of_samples.high
        best, worst = ends if part.lower else ends[::-1]
        # the mean of the answered samples has no place among means of all samples
        own = of_samples.value if missing[i] <= intervals.MOST_MISSING else np.nan
        estimate = dataclasses.replace(
            estimate,
            observed=row.observed,
            failed=len(row.failed),
            cost=Cost(costs[i]["flops_method"], uncounted=UNCOUNTED),
            spending=prices and prices.compute_spending(np.flatnonzero(is_observed(values[i]))),
        )
        ranks = tuple(rank_model(means, mean, part) for mean in (own, best, worst))
        expected[row.name][part.columns] = cells
        found.append(
            NewModel(
                row.name,
                part,
                estimate,
                ranks,
                values[i],
                predicted[i],
                made_by,
                fit,
                known.shape[0],
                costs[i],
            )
        )
    return found


def _ask_rows(rows: Sequence[AskedModel], query: Query) -> Responses:
    """Returns the answers of some models, unknown where there is none."""
    parts = [row(Query(samples[None])) for row, samples in zip(rows, query.samples, strict=True)]
    cost = sum((part.cost for part in parts), Cost())
    return Responses(query, np.vstack([part.values for part in parts]), cost)


def _compute_missing(
    rows: Sequence[AskedModel], askable: np.ndarray, substitutes: Substitutes, drawn: bool
) -> np.ndarray:
    """Returns the fraction of samples of each model without an answer, float64[m], after a warning
    if others were asked in their place.

    Args:
      rows: what was asked of each model.
      askable: bool[m, n], the samples on which a model could be asked.
      substitutes: chose the samples that were asked instead of others.
      drawn: whether the samples that can be asked were drawn at random from all.
    """
    models, failed = [row.name for row in rows], np.array([len(row.failed) for row in rows])
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
    known: Matrix,
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


def fit_method(
    known: Matrix,
    fits: Fits,
    budget: int,
    method: str | None = None,
    *,
    seed: int = 0,
    progress: Progress = SILENT,
) -> tuple[str, int]:
    """Fits a method to known models for a budget; what was fitted before is not fitted again.

    Args:
      known: the known models.
      fits: where the fit is kept.
      budget: number of samples asked of each new model; where they have prices, how many of them
        these afford.
      method, seed, progress: as of `Asking`.

    Returns: the method's name, and the FLOPs of its fit.
    """
    check_budget(budget, known.facts.points)
    used = methods.get_within_budget(method or methods.DEFAULT).choose_for_known(known)
    used.check(budget, known)
    progress.stage(used.name)
    readable = read_for_method(used, known, 1)
    stored = find_fit(fits, used, known, seed)
    fit_key, _ = jax.random.split(jax.random.key(seed))
    ctx = make_staged_context(Within(progress, used.name))
    stored.make_evaluator(readable, budget, fit_key, ctx)
    return used.name, stored.flops(budget)
