"""A weighted mean of the asked samples, averaged with an item response model's (gp-IRT of Maia Polo
et al., tinyBenchmarks, 2024, section 3.2).

The paper's item response model has several dimensions; here it has one, as `irt_2pl`. The paper
sets the share of the two by approximations of the bias of the one and the variance of the
other; here cross-validation on the known models does.
"""

import dataclasses

import numpy as np

from nevis_stream.dynamic_evaluation import folds
from nevis_stream.dynamic_evaluation.asking import MatrixAsk
from nevis_stream.dynamic_evaluation.item_response import ItemResponse
from nevis_stream.dynamic_evaluation.method import Prediction
from nevis_stream.dynamic_evaluation.predictors.mean import represented
from nevis_stream.dynamic_evaluation.sampling import numpy_generator

PRIOR_MODELS = 5.0  # known models that are assumed to have found both means equally good


class GeneralizedItemResponse(ItemResponse):
    """The two-parameter model's cells; their mean and that of the asked samples, averaged."""

    def __init__(self):
        super().__init__("item response model and weighted mean, averaged by cross-validation")

    def tune(self, tree, known, policy, budget, key, ctx):
        """Returns `share`, the weight of the asked samples' mean: least squares on known models."""
        random, pairs = numpy_generator(key), []
        trees = tree.setdefault("folds", [])
        for number, (values, rest) in enumerate(folds.divided(known, random)):
            if number == len(trees):
                model = self.fit(rest, key, ctx)
                learned = policy.fit(rest, self.beliefs(model, rest, ctx), key, ctx)
                trees.append({"model": model, "policy": learned})
            ask = MatrixAsk(folds.filled(values, random))
            beliefs = self.beliefs(trees[number]["model"], rest, ctx)
            plan = policy.plan(trees[number]["policy"], beliefs, budget, key, ctx)
            answers = policy.ask(plan, ask, len(values), key, ctx)
            by_model = super().predict(trees[number]["model"], {}, rest, answers, ctx)
            mean = known.facts.mean(by_model.values)
            asked = (represented(answers, known.facts) * answers.values).sum(axis=1)
            pairs.append(np.array([asked - mean, known.facts.mean(ask.truth) - mean]))
        if not pairs:
            return {"share": 0.5}
        apart, missing = np.concatenate(pairs, axis=1)
        prior = PRIOR_MODELS * (apart**2).mean()
        squares = (apart**2).sum() + prior
        return {
            "share": float(np.clip((apart @ missing + prior / 2) / squares, 0, 1))
            if squares
            else 0.5
        }

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Averages the two means."""
        prediction = super().predict(tree, tuned, known, answers, ctx)
        asked = (represented(answers, known.facts) * answers.values).sum(axis=1)
        mean = known.facts.mean(prediction.values)
        mean = mean + tuned["share"] * (asked - mean)
        return dataclasses.replace(prediction, mean=mean, interval=None)


PREDICTOR = GeneralizedItemResponse()
