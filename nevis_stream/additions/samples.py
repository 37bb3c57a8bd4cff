"""New samples are added to a cache: a few of the known models are asked, the others predicted."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.additions.models import open_fits
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import drop_observed
from nevis_stream.dynamic_evaluation.fits import (
    compute_cost,
    evaluate,
    find_fit,
    read_to_transpose,
)
from nevis_stream.dynamic_evaluation.known_models import KNOWN_FRACTION, read_known
from nevis_stream.dynamic_evaluation.new_models import warn_of_cost
from nevis_stream.dynamic_evaluation.policy import Substitutes
from nevis_stream.errors import BadInput, RunWarning, plural
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, append
from nevis_stream.evaluation_cache.cache_matrix import CacheMatrix
from nevis_stream.evaluation_cache.entries import FLOPS_PER_SAMPLE
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import (
    Cost,
    Oracle,
    Query,
    Responses,
    TooFewAnswers,
    ask_checked,
    check_budget,
)
from nevis_stream.queries.samples import (
    is_observed,
    make_unknown_cells,
    number_images,
    with_all_labels,
)
from nevis_stream.seeds import LEAST, check_seed
from nevis_stream.vocabulary import MULTI_LABEL


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
    seed = check_seed(seed, LEAST)
    chosen, old_samples = methods.get_within_budget(method), cache.samples()
    place = str(cache.directory)
    known_models = read_known(CacheMatrix(cache), np.arange(len(old_samples)), place=place)
    names = list(known_models.models)
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
    transposed = ArrayMatrix(np.ascontiguousarray(known[:, is_learned].T))
    substitutes = Substitutes(transposed, np.ones(values.shape, bool))
    used = chosen.choose_for_known(transposed)
    stored = find_fit(open_fits(cache), used, transposed, seed, "-samples")
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
