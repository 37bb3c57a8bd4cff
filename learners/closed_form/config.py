"""The configuration of the learner `closed_form`, and its budgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from learners.closed_form.maps import CELLS
from nevis_stream.errors import BadInput
from nevis_stream.learner import Learner

# For the 30 tasks of local25: about 2e10, 5e10, 1.5e11, 1e12 and 3e12 FLOPs of all phases.
BUDGETS: dict[str, Mapping[str, Any]] = {
    "tiny": {
        "gradients": (32,),
        "pixels": 8,
        "patches": 0,
        "components": 64,
        "pictures": 400,
        "centres": 400,
        "sample": 150,
    },
    "small": {
        "gradients": (32,),
        "pixels": 8,
        "patches": 0,
        "components": 96,
        "pictures": 1000,
        "centres": 1000,
        "sample": 200,
    },
    "medium": {
        "gradients": (32, 64),
        "pixels": 8,
        "patches": 0,
        "components": 144,
        "pictures": 1250,
        "centres": 1250,
        "sample": 320,
    },
    "large": {
        "gradients": (32, 64),
        "pixels": 8,
        "patches": 64,
        "components": 256,
        "pictures": 3800,
        "centres": 3800,
        "sample": 512,
    },
    "huge": {
        "gradients": (32, 64),
        "pixels": 8,
        "patches": 128,
        "components": 512,
        "pictures": 60_000,
        "centres": 3000,
        "sample": 640,
    },
}


def _option(default: Any, help: str, low: float, high: float) -> Any:
    return field(default=default, metadata={"help": help, "range": (low, high)})


@dataclass(frozen=True)
class ClosedFormConfig:
    """Which features, of how many pictures, and what is chosen by leave-one-out error."""

    BUDGETS: ClassVar = BUDGETS

    gradients: tuple[int, ...] | None = _option(
        None, "sides of the pictures whose oriented gradients are features: 16, 32, 48, …", 16, 512
    )
    pixels: int | None = _option(
        None, "side of the small picture whose pixels are features; 0: none", 0, 512
    )
    patches: int | None = _option(
        None, "patches in each of two dictionaries, of colours and of gradients; 0: none", 0, 65536
    )
    patches_above: float = _option(0.03, "leave-one-out error above which patches are tried", 0, 1)
    components: int | None = _option(
        None, "principal components that are kept of all features", 2, 8192
    )
    pictures: int | None = _option(
        None, "most pictures of train and dev that are learned from", 2, 10**9
    )
    centres: int | None = _option(
        None, "most pictures that are solved for exactly; above, Nyström's centres", 2, 20_000
    )
    iterations: int = _option(12, "conjugate gradient steps of Nyström's method", 1, 1000)
    sample: int | None = _option(
        None, "pictures that features are fitted to, and that choices are compared by", 4, 20_000
    )
    widths: tuple[float, ...] = _option(
        (1.0,), "kernel widths to choose from, in mean squared distances", 1e-3, 1e3
    )
    regularisations: tuple[float, ...] = _option(
        (0.01,), "ridges to choose from; the kernel of a picture with itself is 1", 1e-3, 1e3
    )
    mirrored: tuple[bool, ...] = field(
        default=(False, True),
        metadata={"help": "whether a mirrored picture counts as the same; two values: chosen"},
    )

    def filled(self, budget: str) -> "ClosedFormConfig":
        """Returns the configuration with open values filled in by a budget.

        Raises:
          BadInput: values that make no sense together.
        """
        preset = {
            name: v for name, v in self.BUDGETS[budget].items() if getattr(self, name) is None
        }
        config = replace(self, **preset)
        config._check()
        return config

    def _check(self) -> None:
        for name in ("gradients", "widths", "regularisations", "mirrored"):
            if not getattr(self, name):
                raise BadInput(f"config.{name} is empty; give at least one value.")
        sides = self.gradients
        if any(side % (2 * CELLS) for side in sides) or list(sides) != sorted(set(sides)):
            raise BadInput(
                f"config.gradients is {sides}; it must be rising multiples of {2 * CELLS}, for"
                " example (32,64)."
            )
        if self.pixels and (self.pixels % 2 or sides[0] % self.pixels):
            raise BadInput(
                f"config.pixels is {self.pixels}; it must be even and a divisor of {sides[0]}, the"
                " first of config.gradients."
            )
        if self.patches % 2:
            raise BadInput(f"config.patches is {self.patches}; it must be even.")

    def build(self) -> Learner:
        """Returns the learner."""
        from learners.closed_form.learner import ClosedForm

        return ClosedForm(self)


# As closed_form's, with what repeats save spent on more pictures.
FRONTIER_BUDGETS: dict[str, Mapping[str, Any]] = {
    "tiny": BUDGETS["tiny"] | {"pictures": 450, "centres": 450},
    "small": BUDGETS["small"] | {"pictures": 1085, "centres": 1085},
    "medium": BUDGETS["medium"] | {"pictures": 1415, "centres": 1415},
    "large": BUDGETS["large"] | {"pictures": 4000, "centres": 4000},
    "huge": BUDGETS["huge"],
}


@dataclass(frozen=True)
class FrontierConfig(ClosedFormConfig):
    """As `closed_form`, and what is carried from task to task."""

    BUDGETS: ClassVar = FRONTIER_BUDGETS

    repeats: bool = field(
        default=True,
        metadata={
            "help": "whether a data set that is met again keeps its predictor",
            "label": True,
        },
    )

    def build(self) -> Learner:
        """Returns the learner."""
        from learners.closed_form.frontier import Frontier

        return Frontier(self)
