"""The learners that have a name: what each is, and what it reaches at which cost.

Those of NEVIS'22 are points of one family. Each is run by `launch.run --config=NAME`; `error` and
`flops` are what that gives on the stream `pico` at the budget `tiny` with seed 0, checked by
benchmarks/learners.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_FAMILY = "learners.config:BaselineConfig"


@dataclass(frozen=True)
class NamedLearner:
    """A row of the table.

    Attributes:
      meaning: one line.
      error: mean over the meta-test tasks.
      flops: of all phases, over the whole stream.
      values: what the name sets, by dotted name, unless it is given.
      class_name: the class whose fields are the configuration, MODULE:CLASS.
      weights: flags of launch.pretrain for the weights that it starts from; empty: none.
    """

    meaning: str
    error: float
    flops: float
    values: Mapping[str, Any] = field(default_factory=dict)
    class_name: str = _FAMILY
    weights: str = ""

    def commands(self, name: str) -> list[str]:
        """Returns the commands that give `error` and `flops`."""
        run = f"python -m launch.run --config={name} --run_dir=runs/{name}"
        if not self.weights:
            return [run]
        return [
            f"python -m launch.pretrain --config=indep {self.weights} --out={name}.safetensors",
            f"{run} --config.pretrained.path={name}.safetensors",
        ]


def _point(start: str, auxiliary: str = "none", **search: str) -> dict[str, str]:
    values = {"initialisation": start, "auxiliary.which": auxiliary}
    return values | {f"search.{name}": value for name, value in search.items()}


TABLE: dict[str, NamedLearner] = {
    "indep": NamedLearner(
        "every task from random parameters; nothing is carried over",
        0.3169,
        7.173e11,
        _point("random"),
    ),
    "ft_prev": NamedLearner(
        "every task from the predictor of the task before it, with a new head",
        0.3776,
        7.173e11,
        _point("previous"),
    ),
    "ft_dynamic": NamedLearner(
        "FT-d: every task from the most related earlier predictor, as fine-tuned",
        0.3776,
        8.271e11,
        _point("related"),
    ),
    "ft_static": NamedLearner(
        "FT-s: as FT-d; tasks are compared in the features of predictors trained on one task alone",
        0.3776,
        1.144e12,
        _point("related_static"),
    ),
    "mt": NamedLearner(
        "FT-d that also trains on the most related earlier task (Appendix G)",
        0.3372,
        3.13e12,
        _point("related", "related"),
    ),
    "bhpo": NamedLearner(
        "indep with Bayesian search; with two trials, as here, a random one (Appendix H)",
        0.3169,
        7.173e11,
        _point("random", method="bayesian"),
    ),
    "pt_isup": NamedLearner(
        "every task from a backbone pre-trained with the labels of one data set",
        0.3405,
        7.955e11,
        _point("pretrained"),
        weights="--tasks=pico_digits --stand_in_for=ImageNet",
    ),
    "pt_ext": NamedLearner(
        "every task from a larger backbone, pre-trained on external data",
        0.3593,
        8.85e12,
        _point("pretrained"),
        weights="--config.network.name=resnet18 --config.network.width=16"
        " --config.network.resolution=32 --tasks=pico_digits",
    ),
    "pt_mt": NamedLearner(
        "every task from a backbone pre-trained on all meta-train tasks at once",
        0.3385,
        8.235e11,
        _point("pretrained"),
        weights="--tasks=meta_train",
    ),
    "pt_ft": NamedLearner(
        "FT-d with a pre-trained backbone as one more candidate",
        0.3597,
        9.3e11,
        _point("pretrained_or_related"),
        weights="--tasks=pico_digits",
    ),
    "nearest_class_mean": NamedLearner(
        "distance to the mean image of each class; the smallest learner",
        0.6123,
        2.228e7,
        class_name="learners.nearest_class_mean:NearestClassMean",
    ),
    "logistic_regression": NamedLearner(
        "logistic regression on pixels with scikit-learn; a learner without JAX",
        0.4962,
        8.194e9,
        class_name="learners.logistic_regression:LogisticRegression",
    ),
    "closed_form": NamedLearner(
        "kernel ridge regression on oriented gradients; no training step, nothing carried over",
        0.2867,
        4.175e9,
        class_name="learners.closed_form.config:ClosedFormConfig",
    ),
}
