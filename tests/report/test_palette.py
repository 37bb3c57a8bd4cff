"""Colours that readers, including colour-blind ones, can distinguish in light and dark, and that
contrast with their background.
"""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from skimage.color import deltaE_ciede2000, rgb2lab

from nevis_stream.report import palette

# What dichromats see, in linear RGB: Viénot, Brettel and Mollon, 1999, "Digital video colourmaps
# for checking the legibility of displays by dichromats", as one product of its matrices.
SEEN = {
    "all colours": np.eye(3),
    "protanopia": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
    "deuteranopia": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
}


def linear(name, dark):
    rgb = np.array(to_rgb(palette.list_variables(dark)[name]))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def seen(name, dark, by):
    rgb = np.clip(np.array(SEEN[by]) @ linear(name, dark), 0, 1)
    return rgb2lab(np.where(rgb <= 0.0031308, 12.92 * rgb, 1.055 * rgb ** (1 / 2.4) - 0.055))


def luminance(name, dark):
    return float(linear(name, dark) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("by", SEEN)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_series_differ_for_every_reader(by, dark):
    names = [f"s{number}" for number in range(1, palette.SERIES + 1)]
    distances = {
        (a, b): float(deltaE_ciede2000(seen(a, dark, by), seen(b, dark, by)))
        for a, b in combinations(names, 2)
    }
    closest = min(distances, key=distances.get)
    assert distances[closest] >= (18 if by == "all colours" else 12), (closest, distances[closest])


@pytest.mark.parametrize(
    "name", ["ink", "muted", *(f"s{number}" for number in range(1, palette.SERIES + 1))]
)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_what_is_drawn_stands_off_the_card(name, dark):
    high, low = sorted((luminance(name, dark), luminance("card", dark)), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= (3 if name.startswith("s") else 4.5)


def test_both_schemes_have_all_colours():
    assert palette.list_variables(dark=True).keys() == palette.list_variables(dark=False).keys()
