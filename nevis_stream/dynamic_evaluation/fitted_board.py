"""The known models of a board and a method fitted to them, to evaluate a model step by step."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from nevis_stream.cost.compute import Uncounted
from nevis_stream.dynamic_evaluation import known_models, methods, response
from nevis_stream.dynamic_evaluation.estimates import (
    Estimates,
    Population,
    finish_estimate,
)
from nevis_stream.dynamic_evaluation.fits import find_fit, open_fits, read_for_method
from nevis_stream.dynamic_evaluation.known_models import digest, read_known
from nevis_stream.dynamic_evaluation.method import UNCOUNTED, make_context
from nevis_stream.dynamic_evaluation.policy import Substitutes
from nevis_stream.errors import BadInput
from nevis_stream.queries.board import Board, check_common_mean
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
      board: the known models.
      method: its name.
      budget: number of samples asked of each model over all steps.
      seed: of the method's random choices.
      prices: of the samples, if `budget` is how many of them an amount in their unit buys.
      samples: ids of all of them, in the order to use; None: that of the board.
      kept: whether a new fit is kept in the board's cache.

    Attributes:
      known: the known models.
      means: float64[m], of the known models, from 0 to 1.
      names: their names.
    """

    def __init__(
        self,
        board: Board,
        method: str,
        budget: int,
        seed: int,
        prices: Prices | None = None,
        samples: Sequence[str] | None = None,
        kept: bool = True,
    ):
        (self._part,) = board.facts.parts
        if samples is not None:
            place = {name: column for column, name in enumerate(board.ids)}
            columns = np.array([place[name] for name in samples], np.int64)
            self._part = dataclasses.replace(self._part, columns=columns)
        self.known = read_known(board.matrix, self._part.columns, prices=prices)
        self.means, self.names = self.known.means(), list(self.known.models)
        used = methods.get_within_budget(method).choose_for_known(self.known)
        self._growing = methods.is_growing(method)
        readable = read_for_method(used, self.known, 1)
        stored = find_fit(open_fits(board, kept), used, self.known, seed)
        fit_key, self._key = jax.random.split(jax.random.key(seed))
        self._evaluator = stored.make_evaluator(readable, budget, fit_key, make_context())
        self._evaluator.ctx = Uncounted.standalone()  # records have the cost of the fit alone
        self._budget, self._cost = budget, Cost(stored.flops(budget), uncounted=UNCOUNTED)

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
        elif final and query.samples.shape[1] < self._budget and not self._growing:
            estimates = self._estimate_from_fewer(answers)
        else:
            estimates = self._evaluator.predict(answers, self._budget)
        row = make_unknown_cells((self.known.shape[1],), self.known.scores)
        row[query.samples[0]] = values
        missing = failed / (failed + query.samples.shape[1])
        expected = np.where(is_observed(row), row, estimates.values[0])
        drawn_from = population if final else None
        _, estimate = finish_estimate(
            estimates[0], self.known, self._part, row, expected, missing, drawn_from
        )
        if not final:
            reason = f"before {self._budget:,} answers are there, the method has none"
            estimate = dataclasses.replace(
                estimate, low=np.nan, high=np.nan, reason=reason, holds_for=NOBODY
            )
        mean_over = SAMPLES if population is None else str(population)
        return dataclasses.replace(
            estimate.scaled_to(self._part), cost=self._cost, failed=failed, mean_over=mean_over
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
        row = make_unknown_cells((1, self.known.shape[1]), self.known.scores)
        row[0, answers.samples[0]] = answers.values[0]
        others = Substitutes(self.known, is_observed(row))

        def oracle(query: Query) -> Responses:
            query = others(query)
            return Responses(query, np.take_along_axis(row, query.samples, axis=1))

        return self._evaluator.evaluate(oracle, 1, count, self._key)


def digest_board(board: Board, without: Sequence[str] = ()) -> str:
    """Returns 16 hex digits that identify the values of a board's known models, `without` some.

    Raises:
      BadInput: its samples have no common mean, or several labels of an image are columns.
    """
    facts = board.facts
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
    return digest(read_known(board.matrix, facts.parts[0].columns, without))[:16]
