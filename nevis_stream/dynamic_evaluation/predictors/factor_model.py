"""A mean that uses all that is known, with an interval that trusts only the draws."""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import factor_model
from nevis_stream.dynamic_evaluation.factor_model import FactorModel
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policies.informed_strata import (
    FactorPosterior,
    InformedStrata,
)
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.estimation import rounds
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import ANY_MODEL, LIKE_KNOWN, Responses
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree


class FactorPredictor(ScorePredictor):
    """A logistic factor model predicts the cells; the mean is that of the model, clipped to the
    exactly unbiased one of the draws (see `estimation.rounds`), whose interval it has.

    Args:
      like_known: whether new models are assumed to be like the known ones. The mean is then the
        factor model's, with a cross-validated interval; the other one stands beside it.
      cut_by: what the samples were drawn by, if it was another metric of them.
    """

    takes_scores = needs_bounds = True
    out_of_core = True
    gives = frozenset({"factors"})
    holds_for = ANY_MODEL

    def __init__(
        self,
        like_known: bool = False,
        cut_by: "tuple[FactorPosterior, Responses] | None" = None,
    ) -> None:
        self._like_known, self._cut_by = like_known, cut_by
        self.needs_several = like_known
        if like_known:
            self.holds_for = LIKE_KNOWN
            self.about = "logistic factor model; its own mean, with a cross-validated interval"
        else:
            self.about = (
                "logistic factor model; the mean is clipped to the unbiased one of the draws, whose"
                " interval holds for any model"
            )

    def adapt_to_metric(
        self, posterior: ResponsePosterior, answers: Responses
    ) -> "FactorPredictor":
        """Returns a predictor whose strata are those of the metric that was asked: which of them
        was drawn depends on the values of neither.
        """
        assert isinstance(posterior, FactorPosterior)
        return FactorPredictor(self._like_known, (posterior, answers))

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns whether the intervals are those of the draws, for any model.

        Raises:
          BadInput: the policy does not draw in rounds.
        """
        if not isinstance(policy, InformedStrata):
            raise BadInput(
                "factor_model needs draws in rounds with known probabilities: policy"
                " informed_strata."
            )
        return not self._like_known

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Fits the factor model to the known models."""
        (m, n), random = known.shape, make_numpy_generator(key)
        ctx.charge(factor_model.count_fit_flops(m, n))
        model = FactorModel.blank(n) if ctx.counts_only else factor_model.fit(known, random)
        return model.make_tree() | {"ties": random.permutation(n)}

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> FactorPosterior:
        """Returns what is expected of new models."""
        vectors, prior, precision = (
            np.asarray(tree[name]) for name in ("vectors", "prior", "precision")
        )
        model = FactorModel(vectors, prior, precision)
        return FactorPosterior(model, known.facts.weights, np.asarray(tree["ties"]))

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts the cells by all answers, and the mean by the rounds that are complete."""
        posterior = self.make_posterior(tree, known, ctx)
        models, asked = answers.samples.shape
        ends = _find_rounds(answers)
        ctx.charge(models * len(ends) * posterior.count_flops(asked))
        values, found = np.empty((models, posterior.n)), np.empty((models, 3))
        means, deviations = np.empty((2, models))
        for model in range(models):
            whole = posterior.infer(answers, model)
            values[model] = whole.expected
            means[model], deviations[model] = whole.mean, whole.deviation
            if len(ends) == 1:  # asked step by step, and the first round has just begun
                found[model] = whole.mean, np.nan, np.nan
                continue
            until = answers.first(ends[-1])
            truth = np.full(posterior.n, np.nan)
            truth[until.samples[model]] = until.values[model]
            each = [
                self._estimate_round(posterior, until, model, start, end, truth)
                for start, end in zip(ends[:-1], ends[1:], strict=True)
            ]
            mean = posterior.infer(until, model).mean if ends[-1] < asked else whole.mean
            result = rounds.estimate(each, mean, truth, posterior.weights)
            found[model] = result.value, result.low, result.high
        if self._like_known:
            return Prediction(values, means, deviation=deviations, others=found.T)
        mean, low, high = found.T
        return Prediction(values, mean, None if len(ends) == 1 else (low, high))

    def _estimate_round(
        self,
        posterior: FactorPosterior,
        answers: Responses,
        model: int,
        start: int,
        end: int,
        truth: np.ndarray,
    ) -> rounds.Round:
        by, earlier = self._cut_by or (posterior, answers)
        strata = by.cut(earlier.first(start), model, end - start)
        until = posterior.infer(answers.first(end), model)
        predicted = until.predict_without_each(start, strata.stratum)
        drawn = answers.samples[model, start:end]
        return rounds.estimate_round(strata, drawn, predicted, truth, posterior.weights)


def _find_rounds(answers: Responses) -> list[int]:
    """Returns 0 and the number of answers after each complete round: a draw stands for one part of
    as many as its round has.
    """
    fractions, ends = answers.query.fractions, [0]
    assert fractions is not None
    asked = answers.samples.shape[1]
    while ends[-1] < asked:
        end = ends[-1] + round(1 / fractions[0, ends[-1]])
        if end > asked:
            break
        ends.append(end)
    return ends
