"""Backbones, which turn images into features, and the linear head that turns features into logits.

`make_backbone("resnet34")` builds one by name; its options are the attributes of its class. All are
called as `module.apply(variables, images, train=...)`. A network with batch normalisation keeps its
running statistics in the collection `batch_stats`, which must be mutable if `train=True`.
"""

import dataclasses
from typing import Any

import jax
from flax import linen as nn

from nevis_stream.errors import BadInput, unknown
from nevis_stream.learners.parts.networks.convolution import VGG, ResNet, convolve
from nevis_stream.learners.parts.networks.nfnet import NFNet
from nevis_stream.learners.parts.networks.vit import ViT


class MLP(nn.Module):
    """Flattened pixels through hidden layers with ReLU: the cheapest backbone.

    Attributes:
      hidden: units of each hidden layer.

    Called with float32[n, size, size, 3] in [-1, 1] (`train` changes nothing), it returns
    float32[n, hidden[-1]].
    """

    hidden: tuple[int, ...] = (128,)

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        del train
        x = images.reshape(len(images), -1)
        for units in self.hidden:
            x = nn.relu(nn.Dense(units, kernel_init=nn.initializers.he_normal())(x))
        return x


__all__ = [
    "MLP",
    "VGG",
    "Head",
    "NFNet",
    "ResNet",
    "ViT",
    "convolve",
    "make_backbone",
    "list_names",
]


class Head(nn.Module):
    """Linear layer from features float32[n, features] to logits float32[n, classes].

    Attributes:
      classes: number of logits.
    """

    classes: int

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        return nn.Dense(self.classes)(features)


_BACKBONES: dict[str, tuple[type[nn.Module], dict]] = {
    "mlp": (MLP, {}),
    "nfnet_f0": (NFNet, {}),
    "resnet": (ResNet, {}),
    "resnet18": (ResNet, {"stage_sizes": (2, 2, 2, 2)}),
    "resnet34": (ResNet, {"stage_sizes": (3, 4, 6, 3)}),
    "resnet50": (ResNet, {"stage_sizes": (3, 4, 6, 3), "block": "bottleneck"}),
    "vgg11": (VGG, {"stage_sizes": (1, 1, 2, 2, 2)}),
    "vgg16": (VGG, {"stage_sizes": (2, 2, 3, 3, 3)}),
    "vit_b8": (ViT, {}),
    "vit_tiny8": (ViT, {"width": 192, "heads": 3}),
}


def list_names() -> tuple[str, ...]:
    """Returns the names of all backbones."""
    return tuple(sorted(_BACKBONES))


def make_backbone(name: str, **options: Any) -> nn.Module:
    """Builds a backbone by name.

    A class describes its options by their types, by `choices` (the valid strings) and by
    `problem()` (what is wrong with them together, if anything).

    Args:
      name: one of `list_names()`; "resnet" is the same as "resnet34".
      **options: attributes of the class, which replace those of the name; lists become tuples.

    Raises:
      BadInput: unknown name or option, or an invalid value; the message lists the valid ones.

    >>> make_backbone("resnet18", width=16).stage_sizes
    (2, 2, 2, 2)
    """
    if name not in _BACKBONES:
        raise BadInput(unknown("backbone", name, _BACKBONES))
    module, preset = _BACKBONES[name]
    fields = {f.name: f for f in dataclasses.fields(module) if f.name not in ("parent", "name")}
    for option in options:
        if option not in fields:
            raise BadInput(f"backbone {name!r}: {unknown('option', option, fields)}")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    for option, value in options.items():
        if wrong := _find_problem(fields[option], value, getattr(module, "choices", {})):
            raise BadInput(f"backbone {name!r}: {wrong}")
    network = module(**{**preset, **options})
    if hasattr(network, "problem") and (wrong := network.problem()):
        raise BadInput(f"backbone {name!r}: {wrong}")
    return network


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _find_problem(field: dataclasses.Field, value: Any, choices: dict[str, tuple[str, ...]]) -> str:
    """Returns what is wrong with the value of an option; empty if nothing is."""
    if field.name in choices:
        valid = choices[field.name]
        return "" if value in valid else unknown(field.name, value, valid)
    if field.type is bool:
        fits, expected = isinstance(value, bool), "true or false"
    elif field.type is int:
        fits, expected = _is_positive(value), "positive"
    else:
        fits = isinstance(value, tuple) and all(map(_is_positive, value))
        fits, expected = fits and (value or not field.default), "a list of positive whole numbers"
    return "" if fits else f"{field.name} is {value!r}; it must be {expected}."
