"""Exact populations, designs, votes, minimisers and the lower bounds."""

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments.theory import boosting, label_noise, lower_bounds
from nevis_stream.experiments.theory.designs import (
    Design,
    Greedy,
    RandomErrors,
    Scripted,
    Unseen,
    WorstOfThree,
    fill,
    run_design,
)
from nevis_stream.experiments.theory.populations import (
    Population,
    collect,
    compute_risk,
    mix,
    vote_by_majority,
)


def sets(*rows):
    return np.array(rows, bool)


def test_operations_on_four_atoms_by_hand():
    target = np.array([0.1, 0.2, 0.3, 0.4])
    errors = sets([1, 1, 0, 0])[0]
    assert compute_risk(errors, target) == pytest.approx(0.3)
    assert collect(errors, target) == pytest.approx([1 / 3, 2 / 3, 0, 0])
    assert not collect(np.zeros(4, bool), target).any()
    mixed = mix([target, collect(errors, target)])
    assert mixed == pytest.approx([0.65 / 3, 1.3 / 3, 0.15, 0.2])
    # a model without an error leaves the mixture as it is
    assert mix([target, np.zeros(4)]) == pytest.approx(target)
    assert mix([target, target[::-1]], [3, 1]) == pytest.approx([0.175, 0.225, 0.275, 0.325])


def test_a_vote_errs_if_half_of_the_weight_does():
    members = sets([1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0])
    assert vote_by_majority(members).tolist() == [False, True, True, False]
    assert vote_by_majority(members[:2]).tolist() == [True, True, True, False]  # ties
    assert vote_by_majority(members, [2, 1, 0.5]).tolist() == [True, True, False, False]


def test_distances():
    target, start = np.array([0.5, 0.5, 0.0]), np.array([0.75, 0.25, 0.0])
    population = Population(target, start)
    assert population.distance == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("target", "start", "message"),
    [
        ([0.5, 0.4], [0.5, 0.5], "target: not a distribution"),
        ([0.5, 0.5], [1.5, -0.5], "start: not a distribution"),
        ([1.0, 0.0], [0.5, 0.5], "start: an atom has positive probability"),
        ([0.5, 0.5], [1.0], "start has shape"),
    ],
)
def test_populations_that_cannot_be(target, start, message):
    with pytest.raises(BadInput, match=message):
        Population(np.array(target), np.array(start))


def test_a_hierarchy_is_a_path_of_paths_by_hand():
    """Depth 2, width 2, four atoms: what each classifier is trained on is computed by hand."""
    script = {
        (0, 0): [1, 0, 0, 0],
        (0, 1): [1, 1, 0, 0],
        (1, 0): [0, 0, 1, 0],
        (1, 1): [0, 0, 1, 1],
    }
    errors = {place: np.array(row, bool) for place, row in script.items()}
    outcome = run_design(Population.uniform(4), Scripted(errors), Design(2, 2))
    assert outcome.errors[(0,)].tolist() == [True, True, False, False]
    assert outcome.trained_on[(0, 1)] == pytest.approx(np.array([5, 1, 1, 1]) / 8)
    start = np.array([3, 3, 1, 1]) / 8  # of the second member: uniform and the first vote's errors
    assert outcome.trained_on[(1, 0)] == pytest.approx(start)
    assert outcome.trained_on[(1, 1)] == pytest.approx(start / 2 + np.array([0, 0, 0.5, 0]))
    assert outcome.vote.all()
    assert Design(2, 2).rounds == 4


def test_a_path_votes_after_every_round():
    script = {(t,): row for t, row in enumerate(sets([1, 0], [0, 1], [0, 1]))}
    outcome = run_design(Population.uniform(2), Scripted(script), Design.path(3))
    members = [outcome.errors[place] for place in sorted(outcome.trained_on)]
    votes = [vote_by_majority(members[:count]) for count in (1, 2, 3)]
    assert [compute_risk(vote, np.array([0.5, 0.5])) for vote in votes] == [0.5, 1.0, 0.5]


def test_filling_takes_the_best_value_per_cost():
    value, cost = np.array([1.0, 4.0, 2.0, 0.0]), np.array([1.0, 2.0, 0.0, 0.0])
    assert fill(value, cost, 0.0).tolist() == [False, False, True, False]
    assert fill(value, cost, 2.0).tolist() == [False, True, True, False]
    assert fill(np.tile(value, (2, 1)), np.tile(cost, (2, 1)), np.array([0.0, 3.0])).tolist() == [
        [False, False, True, False],
        [True, True, True, False],
    ]


@pytest.mark.parametrize("kind", ["random", "greedy", "worst of three"])
@pytest.mark.parametrize("depth", [1, 2])
def test_minimisers_keep_their_promise_on_uneven_populations(kind, depth):
    generator = np.random.default_rng(3)
    target = generator.dirichlet(np.full(300, 0.5), size=20) + 1e-12
    target /= target.sum(axis=1, keepdims=True)
    start = target * (generator.random(target.shape) < 0.8)
    population = Population(target, start / start.sum(axis=1, keepdims=True))
    eps = generator.uniform(0.05, 0.3, 20)
    minimiser = {
        "random": RandomErrors(eps, generator),
        "greedy": Greedy(eps, target),
        "worst of three": WorstOfThree(eps, target),
    }[kind]
    outcome = run_design(population, minimiser, Design(depth, 3))
    assert np.all(outcome.largest_fit_risk <= eps * (1 + 1e-9))
    assert np.all(outcome.largest_fit_risk > 0)


@pytest.mark.parametrize("inverse", [10, 24, 48])
def test_the_worst_case_of_three_rounds_is_six_eps_squared(inverse):
    """Proved in docs/decisions/0044: 6 eps² / (1 + 2 eps), less than an atom below it."""
    population, eps = Population.uniform(inverse**3), 1 / inverse
    outcome = run_design(population, WorstOfThree(eps, population.target), Design.path(3))
    best = 6 * eps**2 / (1 + 2 * eps)
    assert (
        best - 1 / inverse**3 < compute_risk(outcome.vote, population.target) <= best * (1 + 1e-9)
    )


def test_perfect_minimisers_leave_no_error_after_three_rounds():
    target = np.full((5, 50), 1 / 50)
    start = target * (np.arange(50) < 10)
    population = Population(target, start / start.sum(axis=1, keepdims=True))
    generator = np.random.default_rng(0)
    outcome = run_design(population, Unseen(0.4, target, generator), Design.path(3))
    assert outcome.errors[(0,)].any(axis=1).all() and not outcome.vote.any()


@pytest.mark.parametrize("rounds", [3, 25, 101])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_path_that_stalls_for_any_weights(rounds, weighted):
    generator = np.random.default_rng(rounds)
    drawn = [generator.dirichlet(np.ones(number + 1)) for number in range(rounds)]
    mixing = drawn.__getitem__ if weighted else None
    population, script = lower_bounds.build_stalled_path(12, rounds, mixing)
    outcome = run_design(population, script, Design.path(rounds, mixing=mixing))
    assert outcome.largest_fit_risk <= 1 / 12 * (1 + 1e-9)
    assert compute_risk(outcome.vote, population.target) == pytest.approx(1 / 12**2 / 8)


@pytest.mark.parametrize(("depth", "width"), [(0, 3), (1, 3), (2, 3), (1, 5), (3, 2)])
def test_hierarchies_share_a_core(depth, width):
    population, script = lower_bounds.build_shared_core(12, depth, width)
    outcome = run_design(population, script, Design(depth, width))
    assert outcome.largest_fit_risk <= 1 / 12 * (1 + 1e-9)
    vote = compute_risk(outcome.vote, population.target)
    # with two members a tie is an error, so the vote of two errs on more than the core
    assert vote == pytest.approx(12.0 ** -(depth + 1)) or width == 2


def test_constructions_say_which_eps_they_need():
    with pytest.raises(BadInput, match="1 / eps is 8; depth 2 and width 3 need 9"):
        lower_bounds.build_shared_core(8, 2)
    with pytest.raises(BadInput, match="needs at least 2"):
        lower_bounds.build_stalled_path(1, 3)


def test_label_noise_keeps_a_constant_share():
    noisy = label_noise.NoisyPopulation.make(0.1, 200, 10_000)
    outcome = label_noise.run_noisy_path(noisy, 0.01, 11)
    shares = label_noise.compute_noisy_fractions(noisy, outcome)
    assert shares[0] == pytest.approx(0.1) and shares[1:].min() > 0.4
    clean = label_noise.compute_clean_risks(noisy, outcome)
    assert clean[-1] > 5 * clean[0]  # the clean part is lost
    first = outcome.errors[(0,)][:400].reshape(-1, 2)
    assert (first.sum(axis=1) == 1).all()  # one of each pair
    with pytest.raises(BadInput, match="delta is 1.5"):
        label_noise.NoisyPopulation.make(1.5, 10, 10)


@pytest.mark.parametrize("eps", [0.1, 0.3])
def test_exponential_updates_keep_their_bound(eps):
    population = Population.uniform(200)
    for minimiser in (RandomErrors(eps, np.random.default_rng(0)), Greedy(eps, population.target)):
        boosted = boosting.boost_by_exponential(population, minimiser, 60)
        bound = np.exp(-((1 - 2 * eps) ** 2) * np.arange(61) / 2)
        assert np.all(boosted.risks <= bound + 1e-12) and boosted.risks[-1] == 0
        assert np.all(boosted.losses >= boosted.risks)


def test_hinge_updates_need_a_minimiser_that_is_right_elsewhere():
    population = Population.uniform(200)
    random = boosting.boost_by_hinge(population, RandomErrors(0.1, np.random.default_rng(0)), 60)
    assert random.risks[-1] == 0 and random.losses[-1] < 0.02
    for step in (1.0, 0.1):
        greedy = boosting.boost_by_hinge(population, Greedy(0.1, population.target), 200, step)
        assert greedy.risks[-1] >= 0.1  # no better than a single classifier
