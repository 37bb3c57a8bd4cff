"""Adds models and samples to a cache: a few cells are asked, the others are predicted, and a
record of the cost is kept.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.adding_part import PartAdder, warn_of_cost
from nevis_stream.dynamic_evaluation.choice import MOST_FLOPS, Choice, choose
from nevis_stream.dynamic_evaluation.estimates import Population, Widening, drop_observed
from nevis_stream.dynamic_evaluation.fits import (
    compute_cost,
    evaluate,
    find_fit,
    make_staged_context,
    read_for_method,
    read_to_transpose,
)
from nevis_stream.dynamic_evaluation.known_models import (
    KNOWN_FRACTION,
    InMemory,
    rank_model,
    read_known,
)
from nevis_stream.dynamic_evaluation.policy import Substitutes
from nevis_stream.errors import BadInput, RunWarning, plural
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, append, read_additions
from nevis_stream.evaluation_cache.entries import FLOPS_PER_SAMPLE
from nevis_stream.evaluation_cache.exchange import TooFewAnswers
from nevis_stream.evaluation_cache.facts import read_groups
from nevis_stream.progress import SILENT, Progress, Within
from nevis_stream.queries.oracle import Cost, Oracle, Query, Responses, ask_checked, check_budget
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import (
    SampleFacts,
    is_observed,
    make_unknown_cells,
    number_images,
    with_all_labels,
)
from nevis_stream.vocabulary import MULTI_LABEL


def add_models(
    cache: EvaluationCache,
    oracles: Mapping[str, Oracle],
    budget: int | Prices,
    method: str | None = None,
    *,
    seed: int = 0,
    provenances: Mapping[str, dict[str, Any]] | None = None,
    most_flops: float = MOST_FLOPS,
    available: Mapping[str, np.ndarray] | None = None,
    drawn: bool = False,
    population: Population | None = None,
    progress: Progress = SILENT,
    report_choice: Callable[[Choice], None] = lambda choice: None,
    report_values: Callable[[str, np.ndarray], None] = lambda model, values: None,
) -> list[Addition]:
    """Evaluates new models on a few of a cache's samples; observed and predicted values are added
    to the cache.

    Cells that the cache already has are not asked again, so an addition that was killed continues
    where it stopped. Models that are observed on every sample already (see `find_complete_models`)
    are left out, and have no record.

    Where data sets differ in direction or range they have no common mean: the method is used on
    each of them on its own, and each has a record. Where prompts have several metrics, samples
    are chosen by the first one, each query answers all, and each has a record. An answer that is
    unknown is never a number: see `oracle.ask_checked` and `policy.Substitutes`.

    Args:
      cache: the cache. The method learns from its known models (see
        `known_models.find_known`), except those that are added.
      oracles: by the id of each new model, what answers for it: takes columns of the cache,
        int64[1, b].
      budget: number of samples to observe of each model; in a multi-label data set of images, each
        of which is observed on all of its labels. Or prices of the samples with a budget in their
        unit: then the method is one that takes prices, by default `DEFAULT_FOR_ANY_MODEL`.
      method: name of a method, or POLICY+PREDICTOR; None: the one that is chosen for these known
        models and this budget (see `choice`), or `DEFAULT_FOR_ANY_MODEL` where prompts have several
        metrics.
      seed: of the method's random choices.
      provenances: of the models, by id; the price of an answer is added to them if it is missing.
      most_flops: that the choice of a method may compute; if the prices of answers are known, no
        more than what is saved by asking fewer cells.
      available: bool[n], by the id of a model, the samples on which it can be asked; others are
        replaced by similar ones (see `Substitutes`). A model without an entry can be asked on all.
      drawn: whether the available samples were drawn at random from all; otherwise, if similar ones
        had to be asked, the interval allows for any values of the others, and there is none if they
        are many.
      population: that the samples are drawn from, if intervals are of the mean over it; None: over
        these samples. Ranks are always by the mean over these.
      progress: is told the stages.
      report_choice: called with the choice, if there is one, before anything is asked.
      report_values: called with each model's name and values, float32[n]: the observed ones, and
        the expected ones of the other samples, which the cache has as 0 or 1 where it has outcomes.

    Returns:
      The record of each model that was not complete (and of each data set, see above).

    Raises:
      BadInput: there is no known model, the method is unknown, or the budget is not valid or above
        the number of samples on which a model can be asked.
    """
    facts = cache.facts()
    samples = facts.n
    if method is not None:
        methods.get_within_budget(method)  # a wrong name is an error before anything is read
    complete = {each.name for each in find_complete_models(cache, list(oracles))}
    oracles = {model: oracle for model, oracle in oracles.items() if model not in complete}
    if not oracles:
        return []
    budgets: Sequence[int | Prices]
    if isinstance(budget, Prices):
        check_can_be_priced(facts)
        method, budgets = method or methods.DEFAULT_FOR_ANY_MODEL, [budget]
    else:
        check_budget(budget, samples if available and facts.prompt is None else facts.points)
        budgets = _divide_budget(budget, facts)
    expected = {model: np.full(samples, np.nan, np.float32) for model in oracles}
    added = []
    adders: dict[int, PartAdder] = {}
    for number, part in enumerate(facts.parts):
        adder = PartAdder(cache, part, number if part.name else None, list(oracles))
        if part.asked_with is None:
            adders[number] = adder
        else:
            adders[part.asked_with].add_metric(adder)
    for (number, adder), part_budget in zip(adders.items(), budgets, strict=True):
        part = facts.parts[number]
        added += adder.add(
            oracles,
            part_budget,
            method,
            seed,
            provenances or {},
            most_flops,
            available or {},
            drawn,
            population,
            Within(progress, part.name) if part.name else progress,
            report_choice,
            expected,
        )
    for model, values in expected.items():
        report_values(model, values)
    return added


@dataclass(frozen=True)
class CompleteModel:
    """A model of a cache that is observed on every sample.

    Attributes:
      name: the model's id.
      dataset: "" for all samples; else the data set that the mean is of, where data sets differ in
        direction or range.
      accuracy: its mean over these samples.
      rank: its place by accuracy among the known models, of which it is one; 1 is the best.
      models: number of known models.
      low, high: the 95% interval of the mean over the population that the samples are drawn from;
        NaN if none is given.
    """

    name: str
    dataset: str
    accuracy: float
    rank: int
    models: int
    low: float = np.nan
    high: float = np.nan


def find_complete_models(
    cache: EvaluationCache, models: Sequence[str], population: Population | None = None
) -> list[CompleteModel]:
    """Returns those of these models that are observed on every sample, so that nothing is left to
    ask or to predict: one entry for each part of the samples that has a common mean.

    Args:
      cache: with the models.
      models: their names, or of models that it does not have.
      population: that the samples are drawn from, if the mean is over it.
    """
    samples = cache.shape[1]
    counts = count_observed_cells(cache, models)
    complete = [model for model in models if counts[model] == samples > 0]
    if not complete:
        return []
    places = []
    for part in cache.facts().parts:
        known, accuracies, names = read_known(cache, part.columns)
        by_name = dict(zip(names, accuracies.tolist(), strict=True))
        for model in complete:
            mean, low, high = by_name[model], np.nan, np.nan
            if population is not None:
                row = cache.matrix([model])[0, part.columns]
                widening = Widening(population, known, part.columns)
                _, low, high = widening.widen([mean] * 3, row, row.astype(np.float64))
            place = rank_model(accuracies, mean, part) or 0
            found = CompleteModel(model, part.name, mean, place, len(names), low, high)
            places.append(found)
    return places


def count_observed_cells(cache: EvaluationCache, models: Sequence[str]) -> dict[str, int]:
    """Returns the number of observed cells of each model; 0 if the cache does not have it."""
    counts = dict(zip(cache.models(), cache.row_sums()[1].tolist(), strict=True))
    return {model: int(counts.get(model, 0)) for model in models}


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


def fit_method(
    cache: EvaluationCache,
    budget: int,
    method: str | None = None,
    *,
    seed: int = 0,
    most_flops: float = MOST_FLOPS,
    prices: Prices | None = None,
    progress: Progress = SILENT,
) -> tuple[str, str, int]:
    """Fits a method to a cache's known models for a budget; `add_models` uses the stored fit until
    these models change, and the first addition is charged for it.

    What was fitted before is not fitted again.

    Args:
      cache, budget, method, seed, most_flops: as of `add_models`.
      prices: of the samples, with a method that takes them; the budget is then how many samples
        they afford.
      progress: is told the stages.

    Returns: the method's name, why it was chosen ("" if it was given), and the FLOPs of its fit.
    """
    reason = ""
    if method is not None:
        methods.get_within_budget(method)
    if len(parts := cache.facts().parts) > 1:
        raise BadInput(
            f"{cache.directory}: its {len(parts)} data sets differ in direction or range, so there"
            " is no common mean to fit a method for; `add-model` fits one for each of them."
        )
    known, _, names = read_known(cache, parts[0].columns, prices=prices)
    check_budget(budget, known.facts.points)
    known.groups = read_groups(cache, names, known.packed_rows())
    additions = read_additions(cache.directory)
    if method is None:
        choice = choose(
            cache.directory, known, 1, budget, seed, additions, most_flops, progress=progress
        )
        method, reason = choice.method, choice.reason
    used = methods.get_within_budget(method).choose_for_known(known)
    used.check(budget, known)
    progress.stage(used.name)
    readable = read_for_method(used, known, 1)
    stored = find_fit(cache.directory, used, known, seed, additions)
    fit_key, _ = jax.random.split(jax.random.key(seed))
    ctx = make_staged_context(Within(progress, used.name))
    stored.make_evaluator(readable, budget, fit_key, ctx)
    return used.name, reason, stored.flops(budget)


def add_samples(
    cache: EvaluationCache,
    samples: Sequence[str],
    oracles: Mapping[str, Oracle],
    budget: int,
    method: str = "sort_and_search",
    *,
    seed: int = 0,
    provenances: Sequence[dict[str, Any]] | None = None,
    source: str = "",
    remedy: str = "",
    progress: Progress = SILENT,
) -> Addition:
    """Evaluates a few of the known models on new samples: models and samples change places.

    Args:
      cache: the cache; its known models (see `known_models.find_known`) are asked, or predicted.
      samples: ids of the new samples.
      oracles: by the id of a model, what answers for it: takes positions in `samples`, int64[1, b].
      budget: number of models to observe on each sample.
      method: name of a method, or a pair, POLICY+PREDICTOR.
      seed: of the method's random choices.
      provenances: of each sample; a sample with `low` and `high` has scores.
      source: what the oracles read, for messages; default: the cache.
      remedy: what to do if a model has no `Oracle`, for messages.
      progress: is told the stages.

    Raises:
      BadInput: there is no known model, the method is unknown, the budget is not valid, or there is
        no `Oracle` for a known model with an unobserved cell: a policy may choose any of them. Then
        nothing is asked or written.
    """
    chosen, old_samples = methods.get_within_budget(method), cache.samples()
    known_models, _, names = read_known(cache, np.arange(len(old_samples)))
    known = read_to_transpose(chosen, known_models, len(samples))
    values = make_unknown_cells((len(samples), len(names)), cache.scores)
    column_of = {sample: column for column, sample in enumerate(old_samples)}
    old = [i for i, sample in enumerate(samples) if sample in column_of]
    if old:
        values[old] = cache.matrix(names, [samples[i] for i in old]).T
    asked_before, costs = is_observed(values).sum(axis=0), [Cost()]
    check_budget(budget, len(names), "known models on each sample")
    multi_label = cache.about.get("kind") == MULTI_LABEL
    image = number_images(samples) if multi_label else None
    unanswered = [
        name
        for name, count in zip(names, asked_before, strict=True)
        if count < len(samples) and name not in oracles
    ]
    if unanswered:
        raise BadInput(
            _describe_unanswered(source or str(cache.directory), unanswered, names, remedy)
        )

    failed: set[tuple[str, str]] = set()

    def ask_models(query: Query) -> Responses:
        models = query.samples
        for model in np.unique(models):
            new = np.flatnonzero((models == model).any(axis=1) & ~is_observed(values[:, model]))
            if image is not None and len(new):  # one forward pass answers for all labels
                new = with_all_labels(new, image)
                new = new[~is_observed(values[new, model])]
            if len(new):
                name, ids = names[model], [samples[i] for i in new.tolist()]
                answers = ask_checked(oracles[name], Query(new[None]), cache.scores)
                confidence = None if answers.confidence is None else answers.confidence[0]
                values[new, model] = answers.values[0]
                cache.append(name, ids, answers.values[0], confidence)
                costs.append(answers.cost)
                empty = ~is_observed(answers.values[0])
                failed.update((name, samples[i]) for i in new[empty].tolist())
        return Responses(query, np.take_along_axis(values, models, axis=1))

    def oracle(query: Query) -> Responses:
        return substitutes.ask_with_substitutes(query, ask_models)

    is_learned = is_observed(known).mean(axis=0) >= KNOWN_FRACTION
    # so that an addition that was killed asks the same cells again
    is_learned[[column_of[samples[i]] for i in old]] = False
    if not is_learned.any():
        raise BadInput(
            f"{cache.directory}: no other sample on which half of the models are observed; nothing"
            " to learn from."
        )
    transposed = InMemory(np.ascontiguousarray(known[:, is_learned].T))
    substitutes = Substitutes(transposed, np.ones(values.shape, bool))
    used = chosen.choose_for_known(transposed)
    additions = read_additions(cache.directory)
    stored = find_fit(cache.directory, used, transposed, seed, additions, "-samples")
    provenance_of = cache.models()
    flops_each = [provenance_of[name].get(FLOPS_PER_SAMPLE) for name in names]
    mean_flops = None if None in flops_each else sum(flops_each) / len(flops_each)
    warn_of_cost(used, transposed, [mean_flops] * len(samples), budget, stored, "sample")
    cache.add_samples(samples, provenances or [None] * len(samples))
    try:
        estimates, own, _ = evaluate(
            stored, transposed, oracle, len(samples), budget, seed, progress
        )
    except TooFewAnswers:
        name, sample = min(failed)
        raise BadInput(
            f"{source or cache.directory}: {len(failed)} answers are unknown, for example of model"
            f" {name!r} on sample {sample!r}, and no other model is left to be asked in its place."
            " What was answered is kept; a smaller budget needs fewer answers."
        ) from None
    if failed:
        name, sample = min(failed)
        message = (
            f"{plural(len(failed), 'answer')} unknown, for example of model {name!r} on sample"
            f" {sample!r}: no number stands for them, and similar models were asked instead."
        )
        warnings.warn(message, RunWarning, stacklevel=2)
    made_by = {"method": method, "budget": budget, "seed": seed}
    predicted = np.ascontiguousarray(drop_observed(estimates, values).T)
    cache.append_predictions(names, samples, predicted, made_by=made_by)
    addition = Addition(
        kind="samples",
        name=f"{len(samples)} samples",
        **made_by,
        models=len(names),
        samples=int(is_learned.sum()),
        asked=int(np.count_nonzero(is_observed(values))),
        fit=stored.key,
        failed=len(failed) or None,
        **compute_cost(
            asked_before,
            [len(samples)] * len(names),
            flops_each,
            sum(costs, Cost()),
            own.fit + own.evaluation,
        ),
    )
    append(cache.directory, addition)
    return addition


def _describe_unanswered(
    source: str, unanswered: Sequence[str], names: Sequence[str], remedy: str
) -> str:
    """Returns a message that known models, of `names`, cannot be asked."""
    first = ", ".join(repr(name) for name in unanswered[:3])
    more = f" and {len(unanswered) - 3} more" if len(unanswered) > 3 else ""
    return (
        f"{source}: {len(unanswered)} of the {len(names)} known models cannot be evaluated on the"
        f" new samples: {first}{more}. Any of them may be asked, so nothing was asked. {remedy}"
    ).rstrip()
