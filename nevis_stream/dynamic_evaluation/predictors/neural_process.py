"""Expected values under an attentive latent neural process (see `neural_process`)."""

import jax
import numpy as np

from nevis_stream.dynamic_evaluation.method import CellPredictor, Prediction
from nevis_stream.dynamic_evaluation.neural_process import network, training
from nevis_stream.dynamic_evaluation.neural_process.descriptions import described
from nevis_stream.dynamic_evaluation.neural_process.prediction import (
    LATENTS,
    Process,
    ProcessBeliefs,
)
from nevis_stream.dynamic_evaluation.sampling import numpy_generator


class NeuralProcess(CellPredictor):
    """Trained on tasks that are drawn from the known models."""

    about = "attentive latent neural process, trained on the known models"
    takes_scores = True
    gives = ProcessBeliefs.gives

    def fit(self, known, key, ctx):
        """Describes the samples and trains the network."""
        sizes = network.sizes(known.shape[0])
        samples = described(known, key, ctx)
        parameters = training.trained(samples, sizes, key, ctx)
        draws = numpy_generator(jax.random.fold_in(key, 1)).normal(size=(LATENTS, sizes.latent))
        process = Process(
            parameters,
            samples.all,
            samples.base,
            samples.kinds,
            known.facts.weights.astype(np.float32),
            draws.astype(np.float32),
        )
        return {"sizes": list(sizes), "process": jax.tree.map(np.asarray, process._asdict())}

    def beliefs(self, tree, known, ctx) -> ProcessBeliefs:
        """Returns the beliefs of the process."""
        return ProcessBeliefs(Process(**tree["process"]), network.Sizes(*tree["sizes"]), ctx)

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Gives expected values, averaged over the latent variable."""
        believed = self.beliefs(tree, known, ctx).all(answers)
        return Prediction(believed.mean, deviation=believed.deviation.astype(np.float64))


PREDICTOR = NeuralProcess()
"""An attentive latent neural process."""
