"""pico_shapes: which shape is it? 28x28 grey, 10 classes.

Rendered, nothing is real: one filled outline on a plain ground, at a random place, size, angle
(any), stretch and pair of grey levels (light on dark or dark on light), with a little noise. Train
and test are separate draws.
"""

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import drawing
from nevis_stream.datasets.images import ArrayImages

VERSION = 1
SIZE = 28
EACH = {"train": 50, "test": 20}  # of every class


def _star() -> np.ndarray:
    points = drawing.regular_polygon(10)
    points[1::2] *= 0.42
    return points


def _heart() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([x, -y - 2], axis=1) / 15.5


def _outline(*corners: tuple[float, float]) -> np.ndarray:
    return np.array(corners)


_PLUS = _outline(
    (-0.3, -0.9), (0.3, -0.9), (0.3, -0.3), (0.9, -0.3), (0.9, 0.3), (0.3, 0.3),
    (0.3, 0.9), (-0.3, 0.9), (-0.3, 0.3), (-0.9, 0.3), (-0.9, -0.3), (-0.3, -0.3),
)  # fmt: skip
_ARROW = _outline(
    (0, -1),
    (0.75, -0.15),
    (0.28, -0.15),
    (0.28, 0.95),
    (-0.28, 0.95),
    (-0.28, -0.15),
    (-0.75, -0.15),
)
_CORNER = _outline((-0.8, -0.9), (-0.25, -0.9), (-0.25, 0.35), (0.8, 0.35), (0.8, 0.9), (-0.8, 0.9))
_DISC = drawing.regular_polygon(36, 0.9)

# Outlines in a square from -1 to 1; True fills, False clears.
SHAPES = {
    "disc": [(_DISC, True)],
    "ring": [(_DISC, True), (drawing.regular_polygon(36, 0.5), False)],
    "crescent": [(_DISC, True), (drawing.regular_polygon(36, 0.75) + (0.45, 0), False)],
    "triangle": [(drawing.regular_polygon(3), True)],
    "square": [(drawing.regular_polygon(4, 1.05), True)],
    "star": [(_star(), True)],
    "plus": [(_PLUS, True)],
    "arrow": [(_ARROW, True)],
    "heart": [(_heart(), True)],
    "corner": [(_CORNER, True)],
}


def _render(name: str, rng: np.random.RandomState) -> np.ndarray:
    stretch = np.diag(rng.uniform(0.8, 1.1, 2))
    matrix = drawing.rotation(rng.uniform(0, 360)) @ stretch @ drawing.rotation(rng.uniform(0, 360))
    matrix = matrix * rng.uniform(7.0, 11.0)
    centre = SIZE / 2 + rng.uniform(-2, 2, 2)
    mask = drawing.polygon_mask(SIZE, [(c @ matrix + centre, fills) for c, fills in SHAPES[name]])
    dark, light = rng.randint(0, 90), rng.randint(165, 256)
    ink, paper = (light, dark) if rng.randint(2) else (dark, light)
    noise = rng.randint(-12, 13, (SIZE, SIZE))
    return np.clip(drawing.blend(mask, ink, paper) + noise, 0, 255).astype(np.uint8)


def build() -> DataSet:
    """Returns the data set: uint8[500, 28, 28] train, uint8[200, 28, 28] test, 10 classes."""
    rng = np.random.RandomState(2001)
    parts = {}
    for part, count in EACH.items():
        pixels = np.stack([_render(name, rng) for name in SHAPES for _ in range(count)])
        labels = np.repeat(np.arange(len(SHAPES)), count)
        parts[part] = ArrayImages(pixels, "pico_shapes"), labels
    return make_dataset("pico_shapes", SINGLE_LABEL, parts, len(SHAPES))
