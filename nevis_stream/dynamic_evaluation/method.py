"""Methods of dynamic evaluation: a policy chooses the cells to ask, a predictor gives the others.

Both are fitted once to the known models. What they learn is a tree of arrays and JSON scalars, so a
fitted method can be saved and used again. The part that depends on the budget is learned when a
budget is first used, and is added to the tree.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.counted import multiply_in_full_precision
from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import known_models
from nevis_stream.dynamic_evaluation.estimates import (
    Estimates,
    is_lower,
    turn_estimates,
    turn_oracle,
    turn_upright,
)
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy, refuse_former_methods
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.estimation import intervals
from nevis_stream.queries import samples
from nevis_stream.queries.matrix import Matrix, turn, wrap_matrix
from nevis_stream.queries.oracle import (
    LIKE_KNOWN,
    NOBODY,
    Cost,
    MatrixOracle,
    Oracle,
    Query,
    Responses,
    check_budget,
)
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

UNCOUNTED = frozenset({"random draws", "interval arithmetic"})  # see `Cost.uncounted`


@dataclass(frozen=True)
class Prediction:
    """A prediction of the values of m models on n samples.

    Attributes:
      values: float[m, n], expected values; with `keeps_answers`, those of asked cells are replaced
        by the answers.
      mean: float64[m], the mean over all samples; None: the mean of the cells.
      interval: (low, high), float64[m] each, of the mean; None if the predictor gives no interval.
      deviation: float64[m], the predictor's own standard deviation of the mean; cross-validated
        intervals are proportional to it. None: all models' intervals are of one width.
      keeps_answers: whether asked cells keep their answers.
      holds_for: for whom each model's interval holds, m texts; `interval` is then NaN for models
        with a cross-validated one. None: for whom `ScorePredictor.holds_for` says.
      notes: for people, on each model's estimate, m texts; None: nothing is to be said.
      others: float64[3, m], value, low and high of the estimate that holds for other models than
        `holds_for` says (`oracle.Estimate.other`), NaN where it does not differ; or None.
      within: float64[2, m], low and high of what each interval is widened to contain, or NaN.
    """

    values: np.ndarray
    mean: np.ndarray | None = None
    interval: tuple[np.ndarray, np.ndarray] | None = None
    deviation: np.ndarray | None = None
    keeps_answers: bool = True
    holds_for: Sequence[str] | None = None
    notes: Sequence[str] | None = None
    others: np.ndarray | None = None
    within: np.ndarray | None = None

    @property
    def unit(self) -> np.ndarray:
        """float64[m], what the widths of cross-validated intervals are proportional to."""
        return np.ones(len(self.values)) if self.deviation is None else self.deviation


class ScorePredictor(ABC):
    """Predicts the cells that were not asked; the base of all `predictors`.

    Attributes:
      about: one line for people.
      takes_scores: whether values may be real scores, with holes, instead of outcomes.
      out_of_core: whether known models may stay in a cache; otherwise their matrix is in memory.
      takes_all: whether it predicts from any values of a new model, however they were chosen. It is
        then also given the other labels of the images that a policy asks; otherwise only what the
        policy asks.
      gives: the quantities, of `response.QUANTITIES`, that its posterior gives to policies.
      holds_for: for whom its own intervals hold; cross-validated ones hold for models like the
        known ones.
      needs_several: whether the stratified mean is used where there are too few known models.
      needs_bounds: whether the stratified mean is used of a metric without bounds.
      is_bound: whether it needs the answers of every cell; for studies only.
    """

    about = ""
    takes_scores = False
    needs_several = False
    needs_bounds = False
    out_of_core = False
    takes_all = False
    gives: frozenset[str] = frozenset()
    holds_for = LIKE_KNOWN
    is_bound = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_former_methods(cls)

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns whether its intervals, from cells that this policy asks, need no further
        cross-validation on the known models.
        """
        return False

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Returns what is learned from the known models for all budgets."""
        return {}

    def fit_budget(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Returns what is learned from the known models for one budget. From its `errors` of known
        models' means and the `unit` of each, float64[k], if it has them, intervals are learned.

        Args:
          tree: what `fit` returned; parts that other budgets need as well may be added to it.
          known, key: as given to `fit`.
          policy: chooses the cells to ask.
          budget: number of samples asked of each new model.
          ctx: counts FLOPs.
        """
        return {}

    @abstractmethod
    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts all cells of m models by their answers and what `fit` and `fit_budget` gave."""

    def adapt_to_metric(self, posterior: ResponsePosterior, answers: Responses) -> "ScorePredictor":
        """Returns the predictor to use for another metric of the samples that were asked.

        Args:
          posterior: what the policy went by, of the metric that was asked.
          answers: of that metric.
        """
        return self

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> ResponsePosterior:
        """Returns the posterior of the fitted predictor, for policies.

        Args:
          tree: what `fit` returned.
          known: as given to `fit`.
          ctx: counts FLOPs.
        """
        return ResponsePosterior(known.shape[1])

    def compute_errors(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> np.ndarray | None:
        """Returns the cross-validation errors of known models' means, float64[k]: true means less
        those predicted without the model and its group. None if this needs new fits; the evaluator
        then makes them.
        """
        return None


@dataclass(frozen=True)
class Method:
    """A policy and a predictor.

    Attributes:
      name: its name for users.
      policy, predictor: the pair.
      cross_validated: whether intervals come from cross-validation on the known models; otherwise
        they are the predictor's own.
      fallback: returns the method that is used where the predictor cannot be (`needs_several`,
        `needs_bounds`).
      about: one line for people.
      alternatives: names of methods that take scores, for an error message.
    """

    name: str
    policy: Policy
    predictor: ScorePredictor
    cross_validated: bool = False
    fallback: "Callable[[Matrix], Method] | None" = None
    about: str = ""
    alternatives: Sequence[str] = ()

    @property
    def out_of_core(self) -> bool:
        """Whether known models are read from a cache piece by piece."""
        return self.policy.out_of_core and self.predictor.out_of_core

    @property
    def is_bound(self) -> bool:
        """Whether it looks at every cell regardless of the budget; for studies only."""
        return self.policy.is_bound or self.predictor.is_bound

    @property
    def takes_scores(self) -> bool:
        """Whether values may be real scores instead of outcomes."""
        return self.predictor.takes_scores

    def choose_for_known(self, known: Matrix) -> "Method":
        """Returns the method to use with these known models: this one, or its fallback.

        Raises:
          BadInput: the values are scores, which the method does not take.
        """
        groups = known_models.count_groups(known)
        unbounded = any(part.unbounded for part in known.facts.parts)
        if self.fallback and (
            (self.predictor.needs_several and groups < intervals.FEWEST)
            or (self.predictor.needs_bounds and unbounded)
        ):
            return self.fallback(known)
        if known.scores and not self.takes_scores:
            raise BadInput(
                f"method {self.name} takes outcomes (0 or 1) only, and these are real scores;"
                f" methods that take scores: {', '.join(self.alternatives)}."
            )
        return self

    def check(self, budget: int, known: Matrix) -> None:
        """Raises BadInput if the budget, a number of samples asked of each model, is less than the
        policy needs or more than can be asked.
        """
        check_budget(budget, known.facts.points)
        if budget < (least := self.policy.find_least_budget(known.facts)):
            raise BadInput(
                f"{self.name}: a budget of {budget}, but at least {least} are needed:"
                " one sample of each data set."
            )

    @multiply_in_full_precision
    def fit(
        self,
        known: "np.ndarray | Matrix",
        groups: Sequence[str] | None = None,
        key: Key = None,
        ctx: Compute | None = None,
    ) -> "Evaluator":
        """Learns from the known models, once for all new models.

        Args:
          known: `Matrix`, or uint8[m0, n] of 0, 1 and 255, or float[m0, n] of scores and NaN.
          groups: the known models' groups, or None; a `Matrix` has its own groups.
          key: a JAX key.
          ctx: counts FLOPs of this and of all evaluations; None: a new context.
        """
        known = wrap_matrix(known, groups)
        method, upright = self.choose_for_known(known), turn_upright(known)
        ctx = ctx or make_context()
        with ctx.phase("train"):
            predictor = method.predictor.fit(upright, key, ctx)
            policy = method.fit_policy(predictor, upright, key, ctx)
        return Evaluator(method, known, {"predictor": predictor, "policy": policy}, key, ctx)

    def fit_policy(self, tree: Tree, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Fits the policy to the known models, given the tree of the fitted predictor."""
        return self.policy.fit(known, self.predictor.make_posterior(tree, known, ctx), key, ctx)


def make_context() -> Compute:
    """Returns a context for methods that are used outside a run."""
    return Compute.standalone(path=("dynamic evaluation",))


@dataclass
class Evaluator:
    """A method that was fitted to the known models.

    Attributes:
      method: the method.
      known: the known models; where lower values are better, 1 minus each value
        (see `turn_upright`).
      tree: what was learned, of arrays and JSON scalars: `predictor`, `policy`, `tuned` by budget,
        and `folds`, the fits of the cross-validation.
      key: the JAX key of the fit.
      ctx: counts FLOPs.
    """

    method: Method
    known: Matrix
    tree: Tree
    key: Key
    ctx: Compute = field(default_factory=make_context)

    def __post_init__(self) -> None:
        self._lower, self.known = is_lower(self.known), turn_upright(self.known)
        self.tree.setdefault("tuned", {})
        self._reported_flops = 0  # those that are in the cost of an estimate

    @multiply_in_full_precision
    def evaluate(self, oracle: Oracle, models: int, budget: int, key: jax.Array) -> Estimates:
        """Evaluates new models, all in one batch.

        Args:
          oracle: answers for the new models.
          models: number of new models.
          budget: number of samples asked of each model.
          key: a JAX key, the only source of randomness.
        """
        ctx = self.ctx
        self.method.check(budget, self.known)
        budget_fit = self.fit_budget(budget)
        with ctx.phase("select"):
            upright = turn_oracle(oracle) if self._lower else oracle
            answers = self._ask(upright, models, budget, key)
        return self._estimate(budget_fit, answers)

    @multiply_in_full_precision
    def next_query(self, answers: Responses, budget: int, key: jax.Array) -> Query:
        """Returns the cells to ask next, as `evaluate` would ask them, given those before.

        Args:
          answers: so far, of m models; without cells at first.
          budget: number of samples asked of each model over all steps, more than there are now.
          key: a JAX key, the same in each step.
        """
        with self.ctx.phase("select"):
            return self.method.policy.next(self.plan(budget), self._turn(answers), key, self.ctx)

    @multiply_in_full_precision
    def predict(self, answers: Responses, budget: int) -> Estimates:
        """Returns the estimates of models from answers that were asked step by step. Before the
        budget is spent, the intervals are those of the whole budget, not of so few answers.

        Args:
          answers: at least one of each model.
          budget: number of samples asked of each model over all steps.
        """
        return self._estimate(self.fit_budget(budget), self._turn(answers))

    @multiply_in_full_precision
    def predict_beside(
        self, main: "Evaluator", answers: Responses, values: np.ndarray, budget: int
    ) -> Estimates:
        """Returns the estimates of this metric, of samples that `main` asked for another one.

        Args:
          main: the evaluator of the metric that was asked, by whose policy the samples were drawn.
          answers: of that metric.
          values: [m, b], of this metric on the same samples.
          budget: as of `predict`.
        """
        posterior = main.method.predictor.make_posterior(
            main.tree["predictor"], main.known, main.ctx
        )
        predictor = self.method.predictor.adapt_to_metric(posterior, main._turn(answers))
        self.method = dataclasses.replace(self.method, predictor=predictor)
        return self.predict(Responses(answers.query, values), budget)

    def _turn(self, answers: Responses) -> Responses:
        if not self._lower:
            return answers
        return dataclasses.replace(answers, values=turn(answers.values))

    def _estimate(self, budget_fit: Tree, answers: Responses) -> Estimates:
        with self.ctx.phase("predict"):
            estimates = self._estimate_means(budget_fit, answers)
        if self._lower:
            estimates = turn_estimates(estimates)
        before, self._reported_flops = self._reported_flops, total(self.ctx.meter.counts())
        cost = answers.cost + Cost(self._reported_flops - before, uncounted=UNCOUNTED)
        return dataclasses.replace(estimates, cost=cost)

    @multiply_in_full_precision
    def fit_budget(self, budget: int) -> Tree:
        """Returns what was learned for a budget, and learns it if the budget is new: `predictor`
        and `half`, the half-width of cross-validated intervals in units, or None."""
        name, method = str(budget), self.method
        if name not in self.tree["tuned"]:
            arguments = (
                self.tree["predictor"],
                self.known,
                method.policy,
                budget,
                self.key,
                self.ctx,
            )
            with self.ctx.phase("train"):
                self.plan(budget)
            with self.ctx.phase("validate"):
                tree, half, learned = method.predictor.fit_budget(*arguments), None, {}
                if method.cross_validated:
                    if "unit" in tree:
                        errors, unit = tree["errors"], tree["unit"]
                    elif (errors := method.predictor.compute_errors(*arguments)) is not None:
                        unit = np.ones(len(errors))
                    else:
                        errors, unit = self.cross_validate(tree, budget)
                    groups = self.known.groups or range(self.known.shape[0])
                    half = known_models.learn_half_width(errors, unit, groups)
                    learned = {"errors": errors}
            self.tree["tuned"][name] = {"predictor": tree, "half": half} | learned
        return self.tree["tuned"][name]

    def compute_errors(self, budget: int) -> np.ndarray:
        """Returns the cross-validation errors of known models' means at a budget, float64[k]: true
        means less those estimated by fits without the model and its group.

        They are those that the interval was learned from, if there are such, else new ones.
        """
        budget_fit = self.fit_budget(budget)
        if "errors" in budget_fit["predictor"]:
            return budget_fit["predictor"]["errors"]
        if "errors" not in budget_fit:
            with self.ctx.phase("validate"):
                budget_fit["errors"], _ = self.cross_validate(budget_fit["predictor"], budget)
        return budget_fit["errors"]

    def plan(self, budget: int) -> Plan:
        """Returns the policy's plan for a budget; makes it if the budget is new."""
        posterior = self.method.predictor.make_posterior(
            self.tree["predictor"], self.known, self.ctx
        )
        return self.method.policy.plan(self.tree["policy"], posterior, budget, self.key, self.ctx)

    def _ask(self, oracle: Oracle, models: int, budget: int, key: Key) -> Responses:
        """Asks what the policy chooses, and for a predictor that `takes_all` also the other labels
        of as many images (see `samples.complete_images`)."""
        answers = self.method.policy.ask(self.plan(budget), oracle, models, key, self.ctx)
        image = self.known.facts.image
        if image is None or not self.method.predictor.takes_all:
            return answers
        rest = samples.complete_images(answers.samples, image)
        return answers.then(oracle(Query(rest))) if rest.size else answers

    def _estimate_means(self, budget_fit: Tree, answers: Responses) -> Estimates:
        prediction, mean = self._predict_cells(budget_fit["predictor"], answers)
        low = high = np.full(len(mean), np.nan)
        reason = "the method gives none"
        unbounded = any(part.unbounded for part in self.known.facts.parts)
        least, most = (-np.inf, np.inf) if unbounded else (0.0, 1.0)
        if self.method.cross_validated:
            unit = prediction.unit
            half = np.where(unit == 0, 0, unit * budget_fit["half"])
            low, high = np.clip(mean - half, least, most), np.clip(mean + half, least, most)
            # the predictor's own of the models that it names; its others are not calibrated
            if prediction.interval is not None and prediction.holds_for is not None:
                has_own = ~np.isnan(prediction.interval[0])
                low, high = (
                    np.where(has_own, own_end, end)
                    for own_end, end in zip(prediction.interval, (low, high), strict=True)
                )
            reason = intervals.TOO_FEW if np.isnan(low).any() else ""
        elif prediction.interval is not None and unbounded:
            reason = intervals.NEEDS_BOUNDS
        elif prediction.interval is not None:
            (low, high), reason = prediction.interval, ""
        if prediction.within is not None:
            start, end = prediction.within
            low, high = np.where(start < low, start, low), np.where(end > high, end, high)
        if not unbounded:  # a model that was right on all samples so far may be right on all others
            all_correct, all_wrong = ((answers.values == end).all(axis=1) for end in (1, 0))
            high = np.where(all_correct & (high < 1), 1.0, high)
            low = np.where(all_wrong & (low > 0), 0.0, low)
            mean, low, high = self._bound(answers, np.stack([mean, low, high]))
        own_holds = LIKE_KNOWN if self.method.cross_validated else self.method.predictor.holds_for
        holds_for = prediction.holds_for or [own_holds] * len(mean)
        holds_for = [
            NOBODY if np.isnan(end) else of for of, end in zip(holds_for, low, strict=True)
        ]
        notes = list(prediction.notes or [""] * len(mean))
        return Estimates(
            *(prediction.values, answers, mean, low, high, reason),
            holds_for=holds_for,
            notes=notes,
            others=prediction.others,
        )

    def _bound(self, answers: Responses, means: np.ndarray) -> np.ndarray:
        """Returns means, [3, m], clipped to what the answers of each model leave for them."""
        values = samples.make_unknown_cells(self.known.shape[1:], self.known.scores)
        bounded = []
        for row, answered, ends in zip(answers.samples, answers.values, means.T, strict=True):
            own = values.copy()
            own[row] = answered
            bounded.append(samples.bound_means(own, ends, self.known.facts))
        return np.array(bounded).reshape(-1, 3).T

    def _predict_cells(self, budget_fit: Tree, answers: Responses) -> tuple[Prediction, np.ndarray]:
        """Returns the prediction with the answers in its values, and the means, float64[m]."""
        prediction = self.method.predictor.predict(
            self.tree["predictor"], budget_fit, self.known, answers, self.ctx
        )
        values = np.array(prediction.values, np.float32)
        if prediction.keeps_answers:
            np.put_along_axis(values, answers.samples, answers.values.astype(np.float32), axis=1)
        # of a model that has answered every sample, nothing is left to be estimated
        whole = prediction.keeps_answers and answers.samples.shape[1] == values.shape[1]
        from_cells = prediction.mean is None or whole
        mean = self.known.facts.mean(values) if from_cells else prediction.mean
        return dataclasses.replace(prediction, values=values), np.asarray(mean, np.float64)

    def cross_validate(self, budget_fit: Tree, budget: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the cross-validation errors of known models' means, each predicted by a fit
        without its fold, and the unit of each.

        The fits are the same for all budgets, and are added to the tree.
        """
        method, ctx, errors, units = self.method, self.ctx, [np.empty(0)], [np.empty(0)]
        random, trees = make_numpy_generator(self.key), self.tree.setdefault("folds", [])
        for number, (values, rest) in enumerate(known_models.make_folds(self.known, random)):
            if number == len(trees):
                trees.append(method.fit(rest, None, self.key, ctx).tree)
            evaluator = Evaluator(method, rest, trees[number], self.key, ctx)
            oracle = MatrixOracle(known_models.fill_holes(values, random))
            answers = evaluator._ask(oracle, len(values), budget, self.key)
            prediction, mean = evaluator._predict_cells(budget_fit, answers)
            errors.append(rest.facts.mean(oracle.truth) - mean)
            units.append(prediction.unit)
        return np.concatenate(errors), np.concatenate(units)
