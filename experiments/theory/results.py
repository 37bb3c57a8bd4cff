"""Every theorem of the paper as a table: what is claimed, next to what is measured.

Each function returns a data frame with a row per setting; `claims.check` says what follows from
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nevis_stream.errors import BadInput
from nevis_stream.experiments.theory import boosting, designs, label_noise, lower_bounds
from nevis_stream.experiments.theory.designs import (
    Design,
    Greedy,
    Minimiser,
    Outcome,
    RandomErrors,
    Unseen,
    WorstOfThree,
)
from nevis_stream.experiments.theory.populations import Population, compute_risk, vote_by_majority

FEWEST = 3


@dataclass(frozen=True)
class Exponent:
    """risk = constant × eps^exponent, by least squares; `low` and `high` bound the exponent."""

    exponent: float
    low: float
    high: float
    constant: float
    n: int


def fit_exponent(eps: np.ndarray, risks: np.ndarray) -> Exponent:
    """Fits a power law and returns its exponent with a 95% interval (Student's t).

    The risks of worst cases are exact, so the interval shows how far they are from a power law,
    not noise.

    Args:
      eps: float64[n], at least 3 different values.
      risks: float64[n], positive.

    Raises:
      BadInput: fewer values, or a risk of 0.

    >>> fit_exponent(np.array([0.1, 0.05, 0.02]), np.array([0.02, 0.005, 0.0008])).exponent
    2.0
    """
    from scipy.stats import linregress, t

    eps, risks = np.asarray(eps, float), np.asarray(risks, float)
    if len(np.unique(eps)) < FEWEST or np.any(risks <= 0):
        raise BadInput(f"an exponent needs {FEWEST} values of eps or more, and positive risks.")
    line = linregress(np.log(eps), np.log(risks))
    half = t.ppf(0.975, len(eps) - 2) * line.stderr
    slope = round(float(line.slope), 10)
    return Exponent(slope, slope - half, slope + half, float(np.exp(line.intercept)), len(eps))


INVERSE_EPS = (10, 16, 24, 32, 48, 64)
PADDINGS = (0.02, 0.05, 0.1, 0.2, 0.3)
STEPS = (1.0, 0.3, 0.1, 0.03)  # of hinge updates
TOLERANCE = 1 + 1e-9  # a fit risk above eps by rounding alone


def compute_three_round_bound(eps, distance):
    """Returns 11 eps² + 8 eps d, the bound of Theorem 3.4 with the constants of its proof."""
    return 11 * eps**2 + 8 * eps * distance


def _measure_risk(population: Population, minimiser: Minimiser, design: Design, eps) -> float:
    """Returns the risk of the vote, after checking that the minimiser kept its promise."""
    outcome = designs.run_design(population, minimiser, design)
    _check_promise(outcome, eps)
    return float(compute_risk(outcome.vote, population.target))


def _check_promise(outcome: Outcome, eps) -> None:
    if np.any(outcome.largest_fit_risk > np.asarray(eps) * TOLERANCE + 1e-12):
        raise ArithmeticError("a minimiser exceeded eps on what it was trained on")


def run_worst_cases(inverses: Sequence[int] = INVERSE_EPS) -> pd.DataFrame:
    """Returns the risk of constructed and adversarial runs on uniform atoms with D0 = D.

    Columns: case, exponent (the claimed one), eps, risk, constant (risk / eps^exponent).
    """
    rows = []
    for inverse in inverses:
        eps, population = 1 / inverse, Population.uniform(inverse**3)
        worst, greedy = WorstOfThree(eps, population.target), Greedy(eps, population.target)
        risks = {
            ("one round", 1): _measure_risk(population, worst, Design(0, 1), eps),
            ("path, 3 rounds, worst case", 2): _measure_risk(
                population, worst, Design.path(3), eps
            ),
            ("path, 3 rounds, greedy", 2): _measure_risk(population, greedy, Design.path(3), eps),
            ("path, 10 rounds, construction", 2): _measure_risk(
                *lower_bounds.build_stalled_path(inverse, 10), Design.path(10), eps
            ),
            ("depth 2, width 3, construction", 3): _measure_risk(
                *lower_bounds.build_shared_core(inverse, 2), Design(2, 3), eps
            ),
            ("depth 2, width 3, adversary", 3): max(
                _measure_risk(
                    population, WorstOfThree(eps, population.target, padding), Design(2, 3), eps
                )
                for padding in PADDINGS
            ),
        }
        rows += [
            {"case": case, "exponent": power, "eps": eps, "risk": r, "constant": r / eps**power}
            for (case, power), r in risks.items()
        ]
    return pd.DataFrame(rows)


def fit_exponents(cases: pd.DataFrame) -> dict[str, Exponent]:
    """Returns the fitted exponent of each case of `run_worst_cases`."""
    return {
        case: fit_exponent(rows["eps"].to_numpy(), rows["risk"].to_numpy())
        for case, rows in cases.groupby("case", sort=False)
    }


def run_stalled_paths(
    inverse_eps: int = 16, rounds: Sequence[int] = (3, 5, 10, 25, 50, 101, 201), seed: int = 0
) -> pd.DataFrame:
    """Returns the construction's risk after more and more rounds (Theorem 3.5): with equal weights,
    and with random weights of the mixtures and of the vote.

    Columns: rounds, weights, risk, constant (risk / eps²).
    """
    generator, rows = np.random.default_rng(seed), []
    for count in rounds:
        drawn = [generator.dirichlet(np.ones(number + 1)) for number in range(count)]
        votes = generator.dirichlet(np.ones(count))
        for name, mixing, voting in (
            ("equal", None, None),
            ("random", drawn.__getitem__, votes),
        ):
            instance = lower_bounds.build_stalled_path(inverse_eps, count, mixing)
            design = Design.path(count, mixing=mixing, voting=voting)
            measured = _measure_risk(*instance, design, 1 / inverse_eps)
            rows.append(
                {"rounds": count, "weights": name}
                | {"risk": measured, "constant": measured * inverse_eps**2}
            )
    return pd.DataFrame(rows)


def run_weighted_hierarchies(inverse_eps: int = 16, draws: int = 20, seed: int = 0) -> pd.DataFrame:
    """Returns the construction's risk at depth 2 and width 3, first with equal weights of the
    mixtures and the votes, then with random ones (Theorem 4.2).

    Columns: weights, risk, constant (risk / eps³).
    """
    generator, rows = np.random.default_rng(seed), []
    population, script = lower_bounds.build_shared_core(inverse_eps, 2)
    for draw in range(draws):
        mixtures = [generator.dirichlet(np.ones(number + 1)) for number in range(3)]
        weights = (mixtures.__getitem__, generator.dirichlet(np.ones(3))) if draw else (None, None)
        design = Design(2, 3, *weights)
        measured = _measure_risk(population, script, design, 1 / inverse_eps)
        rows.append(
            {"weights": "random" if draw else "equal", "risk": measured}
            | {"constant": measured * inverse_eps**3}
        )
    return pd.DataFrame(rows)


def draw_populations(
    count: int, atoms: int, shift: str, generator: np.random.Generator
) -> Population:
    """Returns `count` random populations with shapes [count, atoms].

    Args:
      count, atoms: the shape.
      shift: how D0 differs from D: "none"; "reweighted", by random factors; or "missing", where D0
        lacks a random part of D of up to 30% of the atoms.
      generator: of the draws.
    """
    spread = generator.choice([0.5, 2.0, 50.0], size=(count, 1))  # from uneven to nearly uniform
    target = generator.gamma(spread, size=(count, atoms)) + 1e-9
    target /= target.sum(axis=1, keepdims=True)
    factors = np.ones_like(target)
    if shift == "reweighted":
        factors = np.exp(generator.uniform(0, 1, (count, 1)) * generator.normal(size=target.shape))
    if shift == "missing":
        fraction = generator.uniform(0, 0.3, (count, 1))
        factors = (generator.random(target.shape) >= fraction).astype(float)
    start = target * factors
    return Population(target, start / start.sum(axis=1, keepdims=True))


def run_random_paths(count: int = 10_000, atoms: int = 600, seed: int = 0) -> pd.DataFrame:
    """Returns random and adversarial paths of three rounds (Theorem 3.4).

    Columns: minimiser, shift, eps, distance, risk, bound (11 eps² + 8 eps d).
    """
    generator, tables = np.random.default_rng(seed), []
    kinds: dict[str, Callable[..., Minimiser]] = {
        "random": lambda eps, target: RandomErrors(eps, generator),
        "greedy": Greedy,
        "worst of three": WorstOfThree,
    }
    cells = [(name, shift) for name in kinds for shift in ("none", "reweighted", "missing")]
    for number, (name, shift) in enumerate(cells):
        size = count // len(cells) + (number < count % len(cells))
        for begin in range(0, size, 500):
            many = min(500, size - begin)
            population = draw_populations(many, atoms, shift, generator)
            eps = generator.uniform(0.05, 0.25, many)
            outcome = designs.run_design(
                population, kinds[name](eps, population.target), Design.path(3)
            )
            _check_promise(outcome, eps)
            tables.append(
                pd.DataFrame(
                    {
                        "minimiser": name,
                        "shift": shift,
                        "eps": eps,
                        "distance": population.distance,
                        "risk": compute_risk(outcome.vote, population.target),
                    }
                )
            )
    table = pd.concat(tables, ignore_index=True)
    return table.assign(bound=compute_three_round_bound(table["eps"], table["distance"]))


def run_perfect_paths(
    count: int = 1000, atoms: int = 200, rounds: int = 12, seed: int = 0
) -> pd.DataFrame:
    """Returns paths of perfect minimisers (eps = 0) from D0 with a part of D's support: Proposition
    3.2, Lemma 3.1 and Corollary C.1.

    Columns: largest_vote_risk (over the votes of 3 to `rounds` classifiers), bad_times_alpha (the
    largest alpha × number of classifiers with a risk above alpha; at most 1).
    """
    generator = np.random.default_rng(seed)
    population = draw_populations(count, atoms, "missing", generator)
    fraction = generator.uniform(0.05, 1, count)
    outcome = designs.run_design(
        population, Unseen(fraction, population.target, generator), Design.path(rounds)
    )
    _check_promise(outcome, 0.0)
    members = [outcome.errors[(number,)] for number in range(rounds)]
    votes = [
        compute_risk(vote_by_majority(members[:number]), population.target)
        for number in range(3, rounds + 1)
    ]
    risks = np.sort([compute_risk(member, population.target) for member in members], axis=0)[::-1]
    # below the k-th largest risk, k classifiers are bad
    bad = (risks * np.arange(1, rounds + 1)[:, None]).max(axis=0)
    return pd.DataFrame({"largest_vote_risk": np.max(votes, axis=0), "bad_times_alpha": bad})


def measure_noise(
    deltas: Sequence[float] = (0.04, 0.1, 0.2), ratios: Sequence[float] = (5, 10, 20), seed: int = 0
) -> pd.DataFrame:
    """Returns the fraction, `share`, of D_t on the noisy part for each round up to delta / eps
    (Theorem 3.6).

    Columns: delta, eps, round, share, clean_risk (of h_t on the clean part).
    """
    tables = []
    for delta in deltas:
        for ratio in ratios:
            eps = delta / ratio
            noisy = label_noise.NoisyPopulation.make(delta, 400, 20_000)
            outcome = label_noise.run_noisy_path(noisy, eps, int(ratio) + 1, seed)
            shares = label_noise.compute_noisy_fractions(noisy, outcome)
            clean = label_noise.compute_clean_risks(noisy, outcome)
            facts = {"delta": delta, "eps": eps, "round": np.arange(len(shares))}
            tables.append(pd.DataFrame(facts | {"share": shares, "clean_risk": clean}))
    return pd.concat(tables, ignore_index=True)


def measure_depths(
    inverse_eps: int = 48, distances: Sequence[float] = (0, 0.02, 0.05, 0.1, 0.2)
) -> pd.DataFrame:
    """Returns the largest risk that adversaries reached at depths 0, 1 and 2 (Theorem 4.1).

    D0 lacks a part of D of probability d. Columns: depth, rounds, eps, distance, risk, form
    (eps^(depth + 1) + eps^depth d), constant (risk / form).
    """
    eps, rows = 1 / inverse_eps, []
    atoms = inverse_eps**3
    target = np.full(atoms, 1 / atoms)
    for distance in distances:
        start = np.where(np.arange(atoms) < round(distance * atoms), 0, target)
        population = Population(target, start / start.sum())
        for depth in (0, 1, 2):
            design, d = Design(depth, 3), float(population.distance)
            adversaries = [WorstOfThree(eps, target, padding) for padding in PADDINGS]
            measured = max(
                _measure_risk(population, adversary, design, eps)
                for adversary in (Greedy(eps, target), *adversaries)
            )
            form = eps ** (depth + 1) + eps**depth * d
            rows.append(
                {"depth": depth, "rounds": design.rounds, "eps": eps, "distance": d}
                | {"risk": measured, "form": form, "constant": measured / form}
            )
    return pd.DataFrame(rows)


def run_updates(
    eps_values: Sequence[float] = (0.1, 0.3), atoms: int = 400, rounds: int = 60, seed: int = 0
) -> pd.DataFrame:
    """Returns the alternative of Appendix A, round by round.

    Columns: loss ("hinge" or "exponential"), minimiser, eps, step (of hinge updates), round, risk,
    surrogate (the loss), bound (atoms / round² of hinge updates with step 1, with a constant of 1;
    exp(-(1 - 2 eps)² round / 2) of exponential ones).
    """
    population, tables = Population.uniform(atoms), []
    number = np.arange(rounds + 1)
    for eps in eps_values:
        for name, minimiser in (
            ("random", RandomErrors(eps, np.random.default_rng(seed))),
            ("greedy", Greedy(eps, population.target)),
        ):
            runs = [
                ("hinge", step, boosting.boost_by_hinge(population, minimiser, rounds, step))
                for step in STEPS
            ]
            runs += [
                (
                    "exponential",
                    np.nan,
                    boosting.boost_by_exponential(population, minimiser, rounds),
                )
            ]
            for loss, step, boosted in runs:
                bound = np.exp(-((1 - 2 * eps) ** 2) * number / 2)
                if loss == "hinge":
                    bound = atoms / np.maximum(number, 1) ** 2 if step == 1 else np.nan
                tables.append(
                    pd.DataFrame(
                        {"loss": loss, "minimiser": name, "eps": eps, "step": step}
                        | {"round": number, "risk": boosted.risks, "surrogate": boosted.losses}
                        | {"bound": np.minimum(bound, 1)}
                    )
                )
    return pd.concat(tables, ignore_index=True)
