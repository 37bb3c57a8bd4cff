"""The known models of a board and a method fitted to them, to evaluate a model step by step."""

import contextlib
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from nevis_stream.cost.compute import Uncounted
from nevis_stream.dynamic_evaluation import known_models, methods, response
from nevis_stream.dynamic_evaluation.board import check_common_mean
from nevis_stream.dynamic_evaluation.estimates import (
    Estimates,
    Population,
    Widening,
    allow_for_missing,
)
from nevis_stream.dynamic_evaluation.fits import FOLDER, find_fit, read_for_method
from nevis_stream.dynamic_evaluation.known_models import digest, read_known
from nevis_stream.dynamic_evaluation.method import UNCOUNTED, make_context
from nevis_stream.dynamic_evaluation.policy import Substitutes
from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.evaluation_cache.exchange import bound_means
from nevis_stream.evaluation_cache.facts import read_groups
from nevis_stream.queries.oracle import (
    NOBODY,
    SAMPLES,
    Cost,
    Estimate,
    MatrixOracle,
    Query,
    Responses,
)
from nevis_stream.queries.prices import Prices, Spending
from nevis_stream.queries.samples import is_observed, make_unknown_cells


class FittedBoard:
    """Chooses the samples of a new model and predicts its mean; one model at a time, each as if it
    were the only one.

    Args:
      cache: has the known models, and their fits.
      method: its name.
      budget: number of samples asked of each model over all steps.
      seed: of the method's random choices.
      prices: of the samples, if `budget` is how many of them an amount in their unit buys.
      samples: ids of all of them, in the order to use; None: that of the cache.

    Attributes:
      known: the known models.
      means: float64[m], of the known models, from 0 to 1.
      names: their names.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        method: str,
        budget: int,
        seed: int,
        prices: Prices | None = None,
        samples: Sequence[str] | None = None,
    ):
        (self._part,) = cache.facts().parts
        if samples is not None:
            place = {name: column for column, name in enumerate(cache.samples())}
            columns = np.array([place[name] for name in samples], np.int64)
            self._part = dataclasses.replace(self._part, columns=columns)
        self.known, self.means, self.names = read_known(cache, self._part.columns, prices=prices)
        self.known.groups = read_groups(cache, self.names, self.known.packed_rows())
        used = methods.get_within_budget(method).choose_for_known(self.known)
        readable = read_for_method(used, self.known, 1)
        additions = read_additions(cache.directory)
        stored = find_fit(cache.directory, used, self.known, seed, additions)
        fit_key, self._key = jax.random.split(jax.random.key(seed))
        self._evaluator = stored.make_evaluator(readable, budget, fit_key, make_context())
        self._evaluator.ctx = Uncounted.standalone()  # records have the cost of the fit alone
        self._budget, self._cost = budget, Cost(stored.flops(budget), uncounted=UNCOUNTED)
        self._scores = cache.scores

    def rehearse(self) -> Spending | None:
        """Evaluates a known model, and its opposite, as if they were new, so that the programs that
        choices and estimates need are compiled.

        Returns: what the known model would have cost, where samples differ in price.
        """
        row = known_models.fill_holes(
            self.known.matrix(np.array([0])), np.random.default_rng(0)
        ).clip(0, 1)
        prices, budget = self.known.facts.prices, self._budget
        for values in (1 - row, row):
            answers = self._evaluator.evaluate(MatrixOracle(values), 1, budget, self._key).answers
            for count in response.list_padded_lengths(budget - 1):
                self._evaluator.predict(answers.first(count), budget)
        return prices and prices.compute_spending(answers.samples[0])

    def next_query(self, query: Query, values: np.ndarray, asked: np.ndarray) -> Query:
        """Returns the cells to ask next, [1, b].

        Args:
          query: [1, k], what was asked so far, each with an answer.
          values: [k], the answers from 0 to 1.
          asked: bool[n], which samples were asked before, also those without an answer.
        """
        chosen = self._evaluator.next_query(Responses(query, values[None]), self._budget, self._key)
        return Substitutes(self.known, ~asked[None])(chosen)

    def choose_substitutes(self, query: Query, failed: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Returns similar samples in place of some, int64[number of failed].

        Args:
          query: [1, b].
          failed: bool[b], which of them have no answer.
          asked: bool[n], which samples were asked before.

        Raises:
          TooFewAnswers: there is no other sample.
        """
        others = Substitutes(self.known, ~asked[None]).replace(query, ~failed[None])
        return others.samples[0, failed]

    def estimate(
        self,
        query: Query,
        values: np.ndarray,
        failed: int,
        final: bool,
        population: Population | None = None,
        beside: "tuple[FittedBoard, np.ndarray] | None" = None,
    ) -> Estimate:
        """Returns the estimate of a model's mean, in the units of the board.

        Args:
          query: [1, k], what was asked and has an answer; at least one sample.
          values: [k], the answers from 0 to 1.
          failed: number of further samples that gave no answer.
          final: whether nothing more is asked; else there is no interval.
          population: that the samples are drawn from, if the mean is over it.
          beside: the known models of the metric that was asked, and its answers, [k], if the values
            are of another metric of the same samples.
        """
        answers = Responses(query, values[None])
        if beside is not None:
            asked_board, asked_values = beside
            estimates = self._evaluator.predict_beside(
                asked_board._evaluator,
                Responses(query, asked_values[None]),
                values[None],
                self._budget,
            )
        elif final and query.samples.shape[1] < self._budget:
            estimates = self._estimate_from_fewer(answers)
        else:
            estimates = self._evaluator.predict(answers, self._budget)
        row = make_unknown_cells((self.known.shape[1],), self._scores)
        row[query.samples[0]] = values
        missing = failed / (failed + query.samples.shape[1])
        estimate = estimates[0]
        means, reason = allow_for_missing(estimate, missing, self._part.unbounded)
        if not self._part.unbounded:
            means = bound_means(row, means, self.known.facts).tolist()
        other = estimate.other
        if population is not None and final:
            widening = Widening(population, self.known, self._part.columns)
            means = widening.widen(means, row, estimates.values[0])
            other = other and widening.widen(other, row, estimates.values[0])
        value, low, high = (self._part.unscale(float(mean)) for mean in means)
        if not final:
            low = high = np.nan
            reason = f"before {self._budget:,} answers are there, the method has none"
        count = query.samples.shape[1]
        if other:
            other = tuple(self._part.unscale(each) for each in other)
        holds_for = NOBODY if np.isnan(low) else estimate.holds_for
        return Estimate(
            *(value, low, high, reason, count, self._cost, failed),
            holds_for=holds_for,
            note=estimate.note,
            other=other,
            mean_over=SAMPLES if population is None else str(population),
        )

    def predict(self, query: Query, values: np.ndarray) -> np.ndarray:
        """Returns the expected value of each sample, from 0 to 1, float[n]; arguments as of
        `estimate`.
        """
        return self._evaluator.predict(Responses(query, values[None]), self._budget).values[0]

    def _estimate_from_fewer(self, answers: Responses) -> Estimates:
        """Returns the estimates where a model has no more samples with an answer: those of a budget
        of as many answers, with similar samples in place of others, as `add_models` does.
        """
        count = answers.samples.shape[1]
        row = make_unknown_cells((1, self.known.shape[1]), self._scores)
        row[0, answers.samples[0]] = answers.values[0]
        others = Substitutes(self.known, is_observed(row))

        def oracle(query: Query) -> Responses:
            query = others(query)
            return Responses(query, np.take_along_axis(row, query.samples, axis=1))

        return self._evaluator.evaluate(oracle, 1, count, self._key)


def digest_board(cache: EvaluationCache, without: Sequence[str] = ()) -> str:
    """Returns 16 hex digits that identify the values of a board's known models, `without` some.

    Raises:
      BadInput: its samples have no common mean, or several labels of an image are columns.
    """
    facts = cache.facts()
    check_common_mean(
        facts,
        "a session asks for one. Read the board with one of them; `evaluate add-model` and"
        " `evaluate_metrics` take such boards.",
    )
    if facts.image is not None:
        raise BadInput(
            "several columns of this board are labels of one image; a session asks for single"
            " values. `evaluate add-model` takes such boards."
        )
    known, _, names = read_known(cache, facts.parts[0].columns, without)
    known.groups = read_groups(cache, names, known.packed_rows())
    return digest(known)[:16]


def copy_board(source: EvaluationCache, directory: Path) -> EvaluationCache:
    """Copies a board's values and its stored fits to a directory; a whole copy that a killed start
    has left there is kept, with what was fitted.
    """
    with contextlib.suppress(NevisStreamError):
        cache = EvaluationCache(directory)
        if digest_board(cache) == digest_board(source):
            return cache
    shutil.rmtree(directory, ignore_errors=True)
    cache = EvaluationCache(directory, create=True, about=source.about)
    cache.merge(source)
    if (source.directory / FOLDER).is_dir():
        shutil.copytree(source.directory / FOLDER, directory / FOLDER, dirs_exist_ok=True)
    return cache
