"""Populations and error sets for which more rounds bring nothing: the lower bounds, constructed.

Atoms are uniform and D0 = D. All classifiers of a vote share a few atoms, the core, which is so
small a part of each error set that the minimiser may repeat it for ever.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.experiments.theory.designs import Place, Scripted
from nevis_stream.experiments.theory.populations import Population

Instance = tuple[Population, Scripted]


def build_stalled_path(
    inverse_eps: int, rounds: int, mixing: Callable[[int], Sequence[float]] | None = None
) -> Instance:
    """Returns a path whose vote errs on one of 8 / eps² atoms, however many rounds it has.

    The first 2 / eps classifiers err on the core, one atom, and on 2 / eps - 1 atoms of their own.
    Later rounds repeat the classifier whose collections have the least weight in the mixture.

    Args:
      inverse_eps: 1 / eps, at least 2.
      rounds: at least 1.
      mixing: as in `Design`; the construction depends on it.

    Raises:
      BadInput: 1 / eps below 2.

    Source: Theorem 3.5 and its proof.
    """
    if inverse_eps < 2:
        raise BadInput(f"1 / eps is {inverse_eps}; the construction needs at least 2.")
    blocks, atoms = 2 * inverse_eps, 8 * inverse_eps**2
    own = np.arange(atoms)[None] - 1
    sets = (own // (blocks - 1) == np.arange(blocks)[:, None]) | (own == -1)
    repeats = list(range(min(rounds, blocks)))
    for number in range(blocks, rounds):
        weights = np.ones(number + 1) if mixing is None else np.asarray(mixing(number))
        accumulated = np.bincount(repeats, weights[1:], blocks)
        repeats.append(int(accumulated.argmin()))
    script = {(number,): sets[block] for number, block in enumerate(repeats)}
    return Population.uniform(atoms), Scripted(script)


def build_shared_core(inverse_eps: int, depth: int, width: int = 3) -> Instance:
    """Returns a hierarchy whose vote errs with probability eps^(depth + 1) exactly.

    The members of a vote of depth k err with probability eps^k each and share a core of
    eps^(k + 1), on which the vote then errs. The core is at most a share eps of every error set
    that was collected, so the classifiers keep their promise with any mixture weights.

    Args:
      inverse_eps: 1 / eps; at least width^depth, so that the fresh atoms suffice.
      depth: 0 for a single classifier.
      width: members of each vote.

    Raises:
      BadInput: 1 / eps is too small.

    Source: Theorem 4.2 (depth 2), whose proof is missing from the available text; the
    construction is ours.
    """
    if inverse_eps < width**depth:
        raise BadInput(
            f"1 / eps is {inverse_eps}; depth {depth} and width {width} need {width**depth}."
        )
    atoms = inverse_eps ** (depth + 1)
    script: dict[Place, np.ndarray] = {}
    used = 1  # atom 0 is the core of the outermost vote

    def build(place: Place, core: np.ndarray) -> None:
        nonlocal used
        if len(place) == depth:
            script[place] = core
            return
        size = inverse_eps * int(core.sum())
        for number in range(width):
            errors, fresh = core.copy(), size - int(core.sum())
            errors[used : used + fresh] = True
            used += fresh
            build((*place, number), errors)

    build((), np.arange(atoms) < 1)
    return Population.uniform(atoms), Scripted(script)
