"""The base of all surrogates: what they learn from besides the labels that are bought one by one,
when they are retrained, and the temperature of an ensemble.

Source of the temperature: Guo et al., On Calibration of Modern Neural Networks, ICML 2017.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.array_types import Float, Int
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import Cost, Responses
from nevis_stream.user_calls import ReadOnly


@dataclass(frozen=True)
class LabelledSamples(ReadOnly):
    """k samples outside the pool whose labels are known; an attribute is None if it is unknown.

    Attributes:
      labels: int[k], from 0 to c - 1.
      features: float32[k, d], from the extractor of the pool's features.
      images: uint8[k, side, side, channels], as those of the pool.
      predictions: float[k, c], the tested model's probabilities.
      ensemble: float[e, k, c], the probabilities of the pool's ensemble on these samples.
    """

    labels: np.ndarray
    features: np.ndarray | None = None
    images: np.ndarray | None = None
    predictions: np.ndarray | None = None
    ensemble: np.ndarray | None = None


@dataclass(frozen=True)
class SurrogateData(ReadOnly):
    """What is known before any label of the pool's n samples; an attribute is None if it is not.

    Attributes:
      predictions: float[n, c], the tested model's probabilities.
      features: float32[n, d].
      images: uint8[n, side, side, channels].
      ensemble: float[e, n, c], probabilities of models that a run kept.
      outcomes: float[k, n], of known models: 1 for a right answer, 0 for a wrong one, or a score
        between them; for example from an evaluation cache.
      training: examples that surrogates are trained on, next to the bought labels.
      calibration: examples on which temperatures are fitted; surrogates are not trained on them.
    """

    predictions: np.ndarray
    features: np.ndarray | None = None
    images: np.ndarray | None = None
    ensemble: np.ndarray | None = None
    outcomes: np.ndarray | None = None
    training: LabelledSamples | None = None
    calibration: LabelledSamples | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of samples and classes."""
        return self.predictions.shape

    def learned_from(
        self, name: str, answers: Responses
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the inputs, labels and offsets (what is added to a surrogate's logits) of all
        examples for training and all bought labels.

        Args:
          name: of the inputs: "features" or "images".
          answers: the bought labels.

        Returns: inputs [k, …], labels int32[k], and offsets float32[k, c]: 0 if there are training
          examples; else the logarithm of the tested model's probabilities, so that a surrogate
          without any label is the tested model.
        """
        samples, labels = answers.samples[0], answers.values[0]
        inputs, offsets = getattr(self, name)[samples], self.offsets()[samples]
        if self.training is not None:
            known = getattr(self.training, name)
            inputs = np.concatenate([known, inputs])
            labels = np.concatenate([self.training.labels, labels])
            offsets = np.zeros((len(labels), self.shape[1]), np.float32)
        return inputs, labels.astype(np.int32), offsets

    def offsets(self) -> np.ndarray:
        """Returns float32[n, c], what is added to a surrogate's logits, see `learned_from`."""
        if self.training is not None:
            return np.zeros(self.shape, np.float32)
        return start_logits(self.predictions)


def start_logits(predictions: np.ndarray) -> np.ndarray:
    """Returns log-probabilities, float32[n, c], of which the least is that of 1e-6."""
    return np.log(np.maximum(predictions, 1e-6)).astype(np.float32)


PUBLISHED = (
    *(0, 5, 10, 20, 30, 40, 50, 70, 100, 125, 150, 200),
    *range(250, 1001, 50),
    *range(1250, 2001, 250),
    *range(2500, 4501, 500),
    4900,
)
"""Labels after which the ASE paper's code retrains."""


@dataclass(frozen=True)
class Schedule:
    """Numbers of labels at which something is done.

    Attributes:
      steps: increasing numbers of labels, from 0.

    >>> schedule = Schedule((0, 5, 20))
    >>> [schedule.batch(asked) for asked in (0, 5, 7)]
    [5, 15, 13]
    """

    steps: Sequence[int] = PUBLISHED

    def batch(self, asked: int) -> int:
        """Returns how many labels can be asked at once: up to the next step."""
        later = [step for step in self.steps if step > asked]
        return (later[0] if later else 2 * max(asked, 1)) - asked

    def applied(self, surrogate: Surrogate) -> Surrogate:
        """Returns a surrogate that is called again only when a step has been passed."""
        last: list[tuple[int, EnsemblePredictions]] = []

        def follow_schedule(answers: Responses) -> EnsemblePredictions:
            passed = sum(step <= answers.values.size for step in self.steps)
            if not last or last[0][0] != passed:
                last[:] = [(passed, surrogate(answers))]
                return last[0][1]
            return EnsemblePredictions(last[0][1].probabilities, Cost())

        return follow_schedule


LEAST = 1e-12  # probability; below it, a logarithm says nothing
_RANGE = np.log(20)  # temperatures from 1/20 to 20
_BLOCK = 16384  # samples


def temper(
    members: Float[np.ndarray, "*members samples classes"], temperature: float
) -> Float[np.ndarray, "*members samples classes"]:
    """Returns probabilities [..., n, c] in proportion to p^(1/T), of the dtype of `members`."""
    if temperature == 1:
        return members
    logits = np.log(np.maximum(members, LEAST)) / temperature
    logits -= logits.max(axis=-1, keepdims=True)
    powers = np.exp(logits, out=logits)
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers.astype(members.dtype, copy=False)


def fit_temperature(
    members: Float[np.ndarray, "members samples classes"], labels: Int[np.ndarray, " labels"]
) -> float:
    """Returns the temperature at which the members' mean has the least cross-entropy.

    A penalty of half the squared logarithm keeps it near 1 for few labels.

    Args:
      members: float[e, k, c].
      labels: int[k]; without any the temperature is 1.
    """
    if not len(labels):
        return 1.0
    members = np.asarray(members, np.float64)
    rows = np.arange(len(labels))

    def loss(logarithm: float) -> float:
        mean = temper(members, np.exp(logarithm)).mean(axis=0)
        log_likelihood = np.log(np.maximum(mean[rows, labels], LEAST)).sum()
        return logarithm**2 / 2 - log_likelihood

    best = minimize_scalar(loss, bounds=(-_RANGE, _RANGE), method="bounded")
    return float(np.exp(best.x))


def calibrate(
    members: Float[np.ndarray, "members pool classes"],
    held_out: Float[np.ndarray, "others samples classes"],
    labels: Int[np.ndarray, " labels"],
) -> Float[np.ndarray, "members pool classes"]:
    """Returns members [e, n, c] at the temperature that fits held-out ones.

    Args:
      members: [e, n, c]; it is overwritten.
      held_out: [e, k, c], of samples on which the members were not trained.
      labels: int[k].
    """
    best = fit_temperature(held_out, labels)
    for start in range(0, members.shape[1], _BLOCK):
        members[:, start : start + _BLOCK] = temper(members[:, start : start + _BLOCK], best)
    return members


WORDS = {
    "features": "features of the pool",
    "images": "images of the pool",
    "ensemble": "other models of the run (train with --config.keep=all, or give --run_dir)",
    "outcomes": "outcomes of known models (an evaluation cache, --cache=…)",
}
"""What people call an attribute of `SurrogateData`."""


class SurrogateBuilder(ABC):
    """Builds surrogates from what is known before any label.

    Attributes:
      about: one line for people.
      needs: names of the attributes of `SurrogateData` that must be there.
    """

    about = ""
    needs: tuple[str, ...] = ()

    def lacks(self, data: SurrogateData) -> str:
        """Returns what is missing, in words; empty if nothing is."""
        missing = [WORDS[name] for name in self.needs if getattr(data, name) is None]
        return " and ".join(missing)

    def check(self, name: str, data: SurrogateData) -> None:
        """Raises BadInput if something that the surrogate needs is missing."""
        if missing := self.lacks(data):
            raise BadInput(f"the surrogate {name!r} needs {missing}.")

    @abstractmethod
    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate. It depends on the data, the seed and the bought labels alone,
        not on how often it was called, so that a stopped test can be continued.
        """


def gather_calibration_labels(
    calibration: LabelledSamples | None,
    answers: Responses,
    name: str,
    pool: Float[np.ndarray, "members samples classes"],
) -> tuple[Float[np.ndarray, "members labels classes"], Int[np.ndarray, " labels"]]:
    """Returns probabilities [e, k, c] and labels int[k] of all samples on which a surrogate that is
    not trained here can be calibrated: the examples and the bought labels.

    Args:
      calibration: examples, or None.
      answers: the bought labels.
      name: of the attribute of `LabelledSamples` with the probabilities.
      pool: the probabilities of the pool, [e, n, c].
    """
    parts, labels = [pool[:, answers.samples[0]]], [answers.values[0]]
    known = None if calibration is None else getattr(calibration, name)
    if known is not None:
        parts.append(known if known.ndim == 3 else known[None])
        labels.append(calibration.labels)
    return np.concatenate(parts, axis=1), np.concatenate(labels).astype(int)


class CalibratedModel(SurrogateBuilder):
    """One member: the tested model, at a temperature that the bought labels and the calibration
    examples support. It needs nothing else, but it repeats its own mistakes.
    """

    about = "the tested model itself, calibrated; needs nothing else"

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        pool = np.asarray(data.predictions)[None]

        def surrogate(answers: Responses) -> EnsemblePredictions:
            held_out = gather_calibration_labels(data.calibration, answers, "predictions", pool)
            return EnsemblePredictions(calibrate(pool.copy(), *held_out))

        return surrogate


class Ensemble(SurrogateBuilder):
    """Other models of the same task: trials that a run kept, checkpoints, other seeds.

    It is not trained again; the bought labels only change its temperature. Source: the fixed deep
    ensembles of the ASE paper, section 7.3.
    """

    about = "models that a run already holds (keep=all, seeds), calibrated; not retrained"
    needs = ("ensemble",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        pool = np.asarray(data.ensemble)

        def surrogate(answers: Responses) -> EnsemblePredictions:
            held_out = gather_calibration_labels(data.calibration, answers, "ensemble", pool)
            return EnsemblePredictions(calibrate(pool.copy(), *held_out))

        return surrogate
