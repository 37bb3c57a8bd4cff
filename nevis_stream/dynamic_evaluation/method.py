"""Methods of dynamic evaluation: a policy chooses the cells to ask, a predictor says what the
others are.

Both are fitted once to the known models. What they learn is a tree of arrays and JSON scalars, so a
fitted method can be saved and used again; what depends on the budget is tuned when a budget is
first used, and becomes part of that tree.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import folds, intervals
from nevis_stream.dynamic_evaluation.asking import (
    Answers,
    Ask,
    Cells,
    Cost,
    MatrixAsk,
    check_budget,
)
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.known import Known, known_models
from nevis_stream.dynamic_evaluation.response import Items
from nevis_stream.dynamic_evaluation.sampling import numpy_generator
from nevis_stream.dynamic_evaluation.sort import Rank
from nevis_stream.errors import BadInput
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree

Key = jax.Array | None
"""A JAX key; None where nothing is drawn at random."""
UNCOUNTED = frozenset({"random draws", "interval arithmetic"})


@dataclass(frozen=True)
class Prediction:
    """What a predictor says of m models on n samples.

    Attributes:
      values: float[m, n], expected values; where a cell was asked they are replaced by the answer,
        if `keeps_answers`.
      mean: float64[m], the mean over all samples; None: that of the cells.
      interval: (low, high), float64[m] each, of the mean; None where the predictor has none.
      keeps_answers: whether asked cells keep their answers.
    """

    values: np.ndarray
    mean: np.ndarray | None = None
    interval: tuple[np.ndarray, np.ndarray] | None = None
    keeps_answers: bool = True


class CellPredictor:
    """Predicts the cells that were not asked; the base of all `predictors`.

    Attributes:
      about: one line for people.
      takes_scores: whether values may be real scores, with holes, instead of outcomes.
      out_of_core: whether known models may stay in a cache; else their matrix is in memory.
      calibrated: whether its intervals are calibrated on known models, or need none.
    """

    about = ""
    takes_scores = False
    out_of_core = False
    calibrated = False

    def fit(self, known: Known, key: Key, ctx: Context) -> Tree:
        """Learns from the known models, once for all budgets."""
        return {}

    def tune(
        self, tree: Tree, known: Known, policy: "Policy", budget: int, key: Key, ctx: Context
    ) -> Tree:
        """Learns what depends on the budget.

        Args:
          tree: what `fit` returned; what other budgets need again may be added to it.
          known, key: as given to `fit`.
          policy: what will ask.
          budget: samples asked of each new model.
          ctx: charges what this computes.
        """
        return {}

    def predict(
        self, tree: Tree, tuned: Tree, known: Known, answers: Answers, ctx: Context
    ) -> Prediction:
        """Predicts all cells of the models that were asked."""
        raise NotImplementedError

    def rank(self, tree: Tree) -> Rank | None:
        """Returns its order of the samples, by which a policy may ask."""
        return None

    def items(self, tree: Tree) -> Items | None:
        """Returns its item response model, by which a policy may choose."""
        return None

    def errors(
        self, tree: Tree, known: Known, policy: "Policy", budget: int, key: Key, ctx: Context
    ) -> np.ndarray | None:
        """Returns how far the means of known models are from what is predicted without them (and
        their groups), float64[k], where there is a shorter way than to fit again; else None.
        """
        return None


class Policy:
    """Chooses what to ask; the base of all `policies`.

    Attributes:
      about: one line for people.
      out_of_core: whether known models may stay in a cache.
      adaptive: whether it looks at answers.
    """

    about = ""
    out_of_core = True
    adaptive = False

    def fit(
        self, known: Known, rank: Rank | None, items: Items | None, key: Key, ctx: Context
    ) -> Tree:
        """Learns from the known models; rank and items are the predictor's, where it has them."""
        return {}

    def next(
        self, tree: Tree, answers: Answers, n: int, budget: int, key: Key, ctx: Context
    ) -> Cells:
        """Returns what to ask next: at least one cell of each model, in all not more than the
        budget.

        Args:
          tree: what `fit` returned.
          answers: those that came so far.
          n: how many samples there are.
          budget: samples asked of each model in the end.
          key: a JAX key, the same in each step.
          ctx: charges what this computes.
        """
        raise NotImplementedError

    def ask(
        self, tree: Tree, ask: Ask, models: int, n: int, budget: int, key: Key, ctx: Context
    ) -> Answers:
        """Asks step by step until the budget is spent."""
        answers = Answers(Cells.none(models), np.empty((models, 0), np.uint8))
        while (answers.samples.shape[1]) < budget:
            answers = answers.then(ask(self.next(tree, answers, n, budget, key, ctx)))
        return answers


@dataclass(frozen=True)
class Method:
    """A policy and a predictor.

    Attributes:
      name: what users call it by.
      policy, predictor: the pair.
      tried: whether intervals are those of known models that play new ones; else the predictor's.
      otherwise: names the method used instead where there are too few known models.
      about: one line for people.
    """

    name: str
    policy: Policy
    predictor: CellPredictor
    tried: bool = False
    otherwise: "Callable[[Known], Method] | None" = None
    about: str = ""

    @property
    def out_of_core(self) -> bool:
        """Whether known models are read from a cache piece by piece."""
        return self.policy.out_of_core and self.predictor.out_of_core

    @property
    def takes_scores(self) -> bool:
        """Whether values may be real scores instead of outcomes."""
        return self.predictor.takes_scores

    def fitting(self, known: Known) -> "Method":
        """Returns the method to use with these known models: this, or the one used otherwise.

        Raises:
          BadInput: the values are scores, which the method does not take.
        """
        few = len(known.groups and set(known.groups) or range(known.shape[0])) < intervals.FEWEST
        if few and self.otherwise:
            return self.otherwise(known)
        if known.scores and not self.takes_scores:
            from nevis_stream.dynamic_evaluation import methods

            valid = [name for name, each in methods.registry().items() if each.takes_scores]
            raise BadInput(
                f"method {self.name} takes outcomes (0 or 1) only, and these are real scores;"
                f" methods that take scores: {', '.join(valid)}."
            )
        return self

    def fit(
        self,
        known: "np.ndarray | Known",
        groups: Sequence[str] | None = None,
        key: Key = None,
        ctx: Context | None = None,
    ) -> "Evaluator":
        """Learns from the known models, once for all new ones.

        Args:
          known: a `known.Known`, or uint8[m0, n] of 0, 1 and 255, or float[m0, n] of scores.
          groups: the known models' groups, or None; those of a `Known` are its own.
          key: a JAX key.
          ctx: charges what this and the evaluations compute; None: a context of its own.
        """
        known = known_models(known, groups)
        method, ctx = self.fitting(known), ctx or context()
        with ctx.phase("train"):
            predictor = method.predictor.fit(known, key, ctx)
            policy = method.fit_policy(predictor, known, key, ctx)
        return Evaluator(method, known, {"predictor": predictor, "policy": policy}, key, ctx)

    def fit_policy(self, tree: Tree, known: Known, key: Key, ctx: Context) -> Tree:
        """Fits the policy to the known models, after the predictor, whose tree is given."""
        rank, items = self.predictor.rank(tree), self.predictor.items(tree)
        return self.policy.fit(known, rank, items, key, ctx)


def context() -> Context:
    """Returns a context for methods that are used without a run."""
    return Context.standalone(path=("dynamic evaluation",))


@dataclass
class Evaluator:
    """A method that has seen the known models.

    Attributes:
      method: the method.
      known: the known models.
      tree: what was learned, of arrays and JSON scalars: `predictor`, `policy`, `tuned` by budget,
        and `folds`, the fits without some known models.
      key: the JAX key of the fit.
      ctx: charges everything.
    """

    method: Method
    known: Known
    tree: Tree
    key: Key
    ctx: Context = field(default_factory=context)

    def __post_init__(self):
        self.tree.setdefault("tuned", {})
        self._charged = 0

    def evaluate(self, ask: Ask, models: int, budget: int, key: jax.Array) -> Estimates:
        """Evaluates new models, all in one batch.

        Args:
          ask: where the values come from.
          models: how many new models there are.
          budget: samples asked of each model.
          key: a JAX key, the only source of randomness.
        """
        n, ctx, method = self.known.shape[1], self.ctx, self.method
        check_budget(budget, n)
        tuned = self.tune(budget)
        with ctx.phase("select"):
            answers = method.policy.ask(self.tree["policy"], ask, models, n, budget, key, ctx)
        with ctx.phase("predict"):
            estimates = self._predicted(tuned, answers)
        own, before = total(ctx.meter.counts()), self._charged
        self._charged = own
        cost = answers.cost + Cost(own - before, uncounted=UNCOUNTED)
        return dataclasses.replace(estimates, cost=cost)

    def tune(self, budget: int) -> Tree:
        """Returns what was learned for a budget, after learning it where it is missing."""
        name = str(budget)
        if name not in self.tree["tuned"]:
            method, arguments = self.method, (self.known, self.method.policy, budget, self.key)
            with self.ctx.phase("validate"):
                tree = method.predictor.tune(self.tree["predictor"], *arguments, self.ctx)
                half = self._tried(tree, budget) if method.tried else None
            self.tree["tuned"][name] = {"predictor": tree, "half": half}
        return self.tree["tuned"][name]

    def _predicted(self, tuned: Tree, answers: Answers) -> Estimates:
        prediction = self.method.predictor.predict(
            self.tree["predictor"], tuned["predictor"], self.known, answers, self.ctx
        )
        values = np.array(prediction.values, np.float32)
        if prediction.keeps_answers:
            np.put_along_axis(values, answers.samples, answers.values.astype(np.float32), axis=1)
        mean = self.known.facts.mean(values) if prediction.mean is None else prediction.mean
        low = high = np.full(len(mean), np.nan)
        reason = "the method has none"
        if self.method.tried:
            half = tuned["half"]
            low, high = np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)
            reason = intervals.TOO_FEW if np.isnan(half) else ""
        elif prediction.interval is not None:
            (low, high), reason = prediction.interval, ""
        return Estimates(values, answers, np.asarray(mean, np.float64), low, high, reason)

    def _tried(self, tuned: Tree, budget: int) -> float:
        """Returns the half-width of the interval: known models play new ones."""
        method, known, key = self.method, self.known, self.key
        errors = method.predictor.errors(
            self.tree["predictor"], known, method.policy, budget, key, self.ctx
        )
        if errors is None:
            errors = self._errors(tuned, budget)
        return intervals.tried(errors, known.groups or range(known.shape[0]))

    def _errors(self, tuned: Tree, budget: int) -> np.ndarray:
        """Returns the errors of known models' means, each predicted by a fit without its fold.

        The fits serve all budgets, and become part of the tree.
        """
        method, ctx, errors = self.method, self.ctx, [np.empty(0)]
        random, trees = numpy_generator(self.key), self.tree.setdefault("folds", [])
        for number, (values, rest) in enumerate(folds.divided(self.known, random)):
            if number == len(trees):
                trees.append(method.fit(rest, None, self.key, ctx).tree)
            evaluator = Evaluator(method, rest, trees[number], self.key, ctx)
            ask = MatrixAsk(folds.filled(values, random))
            answers = method.policy.ask(
                evaluator.tree["policy"], ask, len(values), rest.shape[1], budget, self.key, ctx
            )
            estimates = evaluator._predicted({"predictor": tuned, "half": np.nan}, answers)
            errors.append(rest.facts.mean(ask.truth) - estimates.accuracy)
        return np.concatenate(errors)
