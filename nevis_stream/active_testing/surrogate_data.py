"""What a surrogate can learn from, besides the labels of the pool that are bought one by one."""

from dataclasses import dataclass

import numpy as np

from nevis_stream.queries.oracle import Responses


@dataclass(frozen=True)
class LabelledSamples:
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
class SurrogateData:
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
        """Returns the inputs, labels and log-probabilities that a surrogate starts from, of all
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
