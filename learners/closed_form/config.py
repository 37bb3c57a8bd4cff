"""The configuration of the learner `closed_form`, and its presets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nevis_stream.errors import BadInput

CELL_SIDE = 8  # pixels, of the cells of oriented gradients

# For the 30 tasks of local25: about 2e10, 5e10, 1.5e11, 1e12 and 3e12 FLOPs of all phases.
PRESETS: dict[str, Mapping[str, Any]] = {
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
        "gradients": (32, 64, 128),
        "pixels": 8,
        "patches": 0,
        "components": 144,
        "pictures": 1250,
        "centres": 1250,
        "sample": 320,
    },
    "large": {
        "gradients": (32, 64, 128),
        "pixels": 8,
        "patches": 64,
        "components": 256,
        "pictures": 3330,
        "centres": 3330,
        "sample": 512,
    },
    "huge": {
        "gradients": (32, 64, 128),
        "pixels": 8,
        "patches": 128,
        "components": 512,
        "pictures": 60_000,
        "centres": 2700,
        "sample": 640,
    },
}


def _option(default: Any, help: str, low: float, high: float) -> Any:
    return field(default=default, metadata={"help": help, "range": (low, high)})


@dataclass(frozen=True)
class ClosedFormConfig:
    """Which features are used, from how many images, and what leave-one-out error chooses."""

    PRESETS: ClassVar = PRESETS

    gradients: tuple[int, ...] | None = _option(
        None,
        "image sizes, in pixels, at which oriented gradients are computed: 16, 32, 48, …; after the"
        " first, those of more than 64 only where half of the images are as large",
        16,
        512,
    )
    pixels: int | None = _option(
        None, "size of the reduced image whose pixels are features; 0: no such image", 0, 512
    )
    patches: int | None = _option(
        None,
        "visual words in each dictionary (one of colours, of gradients one, or two from 128"
        " pixels on), an even number; 0: none",
        0,
        16_384,
    )
    patches_above: float = _option(
        0.03,
        "leave-one-out error above which patches are tried; they are kept if they lower it",
        0,
        1,
    )
    components: int | None = _option(
        None,
        "number of principal components of the features, an even number: half of them for their"
        " even and half for their odd parts (see maps.py)",
        2,
        8192,
    )
    pictures: int | None = _option(
        None, "largest number of train and dev images to learn from", 2, 10**9
    )
    centres: int | None = _option(
        None, "largest number of images for an exact fit; above it, Nyström's centres", 2, 20_000
    )
    iterations: int = _option(12, "conjugate gradient steps of Nyström's method", 1, 1000)
    sample: int | None = _option(
        None, "number of images for fitting the features and comparing choices", 4, 20_000
    )
    widths: tuple[float, ...] = _option(
        (1.0,), "kernel widths to choose from, in mean squared distances", 1e-3, 1e3
    )
    regularisations: tuple[float, ...] = _option(
        (0.01,), "ridge penalties to choose from, where k(x, x) is 1", 1e-3, 1e3
    )
    mirrored: tuple[bool, ...] = field(
        default=(False, True),
        metadata={
            "help": "whether a mirrored image counts as the same; if both, each task chooses"
        },
    )

    @staticmethod
    def fill(values: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
        """Returns values by name, with open ones filled in from a preset.

        Raises:
          BadInput: values that contradict each other.
        """
        filled = {**values, **{k: v for k, v in preset.items() if values[k] is None}}
        for name in ("gradients", "widths", "regularisations", "mirrored"):
            if not filled[name]:
                raise BadInput(f"config.{name} is empty; give at least one value.")
            if len(set(filled[name])) < len(filled[name]):
                raise BadInput(f"config.{name} is {filled[name]}; give each value once.")
        sides, pixels = filled["gradients"], filled["pixels"]
        if any(side % (2 * CELL_SIDE) for side in sides) or list(sides) != sorted(set(sides)):
            raise BadInput(
                f"config.gradients is {sides}; it must be increasing multiples of {2 * CELL_SIDE},"
                " for example (32,64)."
            )
        if pixels and (pixels % 2 or sides[0] % pixels):
            raise BadInput(
                f"config.pixels is {pixels}; it must be even and a divisor of {sides[0]}, the"
                " first of config.gradients."
            )
        for name in ("patches", "components"):
            if filled[name] % 2:
                raise BadInput(f"config.{name} is {filled[name]}; it must be even.")
        return filled


# closed_form's; up to `large`, the FLOPs that repeats save are spent on more images (`huge` uses
# all images already). Two more with networks.
FRONTIER_PRESETS: dict[str, Mapping[str, Any]] = {
    "tiny": PRESETS["tiny"] | {"pictures": 450, "centres": 450},
    "small": PRESETS["small"] | {"pictures": 1085, "centres": 1085},
    "medium": PRESETS["medium"] | {"pictures": 1445, "centres": 1445},
    "large": PRESETS["large"] | {"pictures": 3530, "centres": 3530},
    "huge": PRESETS["huge"],
    "giant": PRESETS["huge"]
    | {"patches": 256, "components": 768, "sample": 768, "network_steps": 1200},
}
FRONTIER_PRESETS["colossal"] = FRONTIER_PRESETS["giant"] | {"network_steps": 16_000}


@dataclass(frozen=True)
class FrontierConfig(ClosedFormConfig):
    """The configuration of `closed_form`, whether predictors are reused, and of added networks."""

    PRESETS: ClassVar = {
        name: {"network_steps": 0} | values for name, values in FRONTIER_PRESETS.items()
    }

    repeats: bool = field(
        default=True,
        metadata={
            "help": "reuse the predictor of a data set that occurs again",
            "label": True,
        },
    )
    network_steps: int | None = _option(
        None,
        "steps of a network whose answers are averaged with those of the ridge; 0: no network",
        0,
        10**8,
    )
    network_above: float = _option(
        0.06,
        "leave-one-out error above which a task gets a network (with more images than centres: also"
        " the error on dev of a fit without it)",
        0,
        1,
    )
    chained: bool = field(
        default=True,
        metadata={
            "help": "whether a network starts from that of an earlier task instead of at random",
            "label": True,
        },
    )
