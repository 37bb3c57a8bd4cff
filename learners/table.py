"""The learners that have a name, with the error that each reaches and what it costs.

Those of NEVIS'22 are members of one family. `launch.run --config=NAME` runs a learner; `error` and
`flops` are the results on the stream `pico` at the budget `tiny` with seed 0, as
benchmarks/learner_table.py checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_FAMILY = "nevis_stream.learners.config:BaselineConfig"
_BUILD = "nevis_stream.learners.parts.baseline:build"


@dataclass(frozen=True)
class NamedLearner:
    """A row of the table.

    Attributes:
      meaning: a description in one line.
      error: mean error on the meta-test tasks.
      flops: FLOPs of all phases, over the whole stream.
      values: by dotted name, the values of the config that the name stands for.
      class_name: the class whose fields are the configuration, MODULE:CLASS.
      builder: MODULE:NAME of what takes the configuration and returns the learner; empty if the
        class is the learner itself.
      weights: flags of launch.pretrain for the weights it starts from; empty if it needs none.
    """

    meaning: str
    error: float
    flops: float
    values: Mapping[str, Any] = field(default_factory=dict)
    class_name: str = _FAMILY
    builder: str = _BUILD
    weights: str = ""

    def commands(self, name: str) -> list[str]:
        """Returns the commands that reproduce `error` and `flops`."""
        run = f"python -m launch.run --config={name} --run_dir=runs/{name}"
        if not self.weights:
            return [run]
        return [
            f"python -m launch.pretrain --config=indep {self.weights} --out={name}.safetensors",
            f"{run} --config.pretrained.path={name}.safetensors",
        ]


def _list_values(start: str, auxiliary: str = "none", **search: str) -> dict[str, str]:
    """Returns the config's values, by dotted name, of a baseline."""
    values = {"initialisation": start, "auxiliary.which": auxiliary}
    return values | {f"search.{name}": value for name, value in search.items()}


TABLE: dict[str, NamedLearner] = {
    "indep": NamedLearner(
        "starts every task from random parameters; nothing is transferred",
        0.3490,
        7.173e11,
        _list_values("random"),
    ),
    "ft_prev": NamedLearner(
        "starts every task from the predictor of the previous task, with a new head",
        0.3422,
        7.173e11,
        _list_values("previous"),
    ),
    "ft_dynamic": NamedLearner(
        "FT-d: starts every task from the predictor of the most related earlier task",
        0.3357,
        8.271e11,
        _list_values("related"),
    ),
    "ft_static": NamedLearner(
        "FT-s: as ft_dynamic, but compares tasks by features of predictors trained on one task",
        0.3330,
        1.144e12,
        _list_values("related_static"),
    ),
    "mt": NamedLearner(
        "ft_dynamic, also with data of the most related earlier task (NEVIS'22, Appendix G)",
        0.3412,
        3.13e12,
        _list_values("related", "related"),
    ),
    "bhpo": NamedLearner(
        "indep with Bayesian search over seven hyper-parameters (section 5.5), which is a random"
        " search up to three trials",
        0.3764,
        8.565e11,
        _list_values("random", method="bayesian", space="large"),
    ),
    "pt_isup": NamedLearner(
        "starts every task from a backbone pre-trained on one labelled data set",
        0.3643,
        7.955e11,
        _list_values("pretrained"),
        weights="--tasks=pico_digits --stand_in_for=ImageNet",
    ),
    "pt_ext": NamedLearner(
        "starts every task from a larger backbone that was pre-trained on external data",
        0.3694,
        8.85e12,
        _list_values("pretrained"),
        weights="--config.network.name=resnet18 --config.network.width=16"
        " --config.network.resolution=32 --tasks=pico_digits",
    ),
    "pt_mt": NamedLearner(
        "starts every task from a backbone pre-trained on all meta-train tasks together",
        0.4079,
        8.235e11,
        _list_values("pretrained"),
        weights="--tasks=meta_train",
    ),
    "pt_ft": NamedLearner(
        "ft_dynamic, with a pre-trained backbone as an additional candidate",
        0.3087,
        9.3e11,
        _list_values("pretrained_or_related"),
        weights="--tasks=pico_digits",
    ),
    "nearest_class_mean": NamedLearner(
        "distance to the mean image of each class; the cheapest learner",
        0.6123,
        2.228e7,
        class_name="nevis_stream.learners.nearest_class_mean:NearestClassMean",
        builder="",
    ),
    "logistic_regression": NamedLearner(
        "logistic regression on pixels, with scikit-learn instead of JAX",
        0.4962,
        8.194e9,
        class_name="nevis_stream.learners.logistic_regression:LogisticRegression",
        builder="",
    ),
    "closed_form": NamedLearner(
        "kernel ridge regression on gradients and visual words; no training steps, no transfer",
        0.2876,
        2.992e9,
        class_name="nevis_stream.learners.closed_form.config:ClosedFormConfig",
        builder="nevis_stream.learners.closed_form.learner:ClosedForm",
    ),
    "frontier": NamedLearner(
        "closed_form that reuses predictors of repeated data sets; large budgets add networks",
        0.2818,
        2.851e9,
        class_name="nevis_stream.learners.closed_form.config:FrontierConfig",
        builder="nevis_stream.learners.closed_form.frontier:Frontier",
    ),
    **{
        f"shared_{method}": NamedLearner(
            meaning,
            error,
            flops,
            {"method": method},
            class_name="nevis_stream.learners.shared_network:SharedNetwork",
            builder="",
        )
        for method, meaning, error, flops in (
            (
                "finetune",
                "one network for all tasks, which goes on training on each",
                0.4431,
                6.714e11,
            ),
            ("replay", "the same, with images of earlier tasks in each step", 0.4187, 1.262e12),
            ("ewc", "the same, with elastic weight consolidation", 0.5457, 7.076e11),
        )
    },
}

BUILDERS: Mapping[str, str] = {row.class_name: row.builder for row in TABLE.values() if row.builder}
"""By the class of a configuration, what builds its learner."""
