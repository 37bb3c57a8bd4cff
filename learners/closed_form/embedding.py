"""Pictures as vectors: all their feature maps at one scale, reduced to principal components.

An embedding has two halves, even and odd (see `maps`): of the mirrored picture the even half is the
same and the odd half has the opposite sign.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learners.closed_form import maps, patches
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree

BATCH, LEAST = 256, 64
_PICTURES_OF_PATCHES = 512
_DRAWN = 8192  # patches whose covariance is whitened
_COLOUR, _GRADIENTS = "colour", "gradients"
_SIDES = {_COLOUR: 6, _GRADIENTS: 3}
_STRIDES = {_COLOUR: 2, _GRADIENTS: 1}


@dataclass(frozen=True)
class Plan:
    """Which features a picture has.

    Attributes:
      gradients: sides of the pictures of which oriented gradients are taken, multiples of 16; the
        first is also the side of the pictures that small pictures and patches are made of.
      pixels: side of the small picture, 0 for none.
      patches: members of each dictionary of patches, 0 for none.
    """

    gradients: tuple[int, ...]
    pixels: int
    patches: int

    @property
    def dictionaries(self) -> tuple[str, ...]:
        """What patches are cut from: colours, and histograms of oriented gradients."""
        return (_COLOUR, _GRADIENTS) if self.patches else ()


@dataclass(frozen=True)
class Pictures:
    """Chosen pictures of one or several containers, in a given order.

    Attributes:
      containers: the containers.
      rows: int[n, 2]: for each picture its container and its place there.
    """

    containers: Sequence[Images]
    rows: np.ndarray

    @classmethod
    def all_of(cls, *containers: Images) -> "Pictures":
        """Returns all pictures, container after container."""
        rows = [
            np.stack([np.full(len(c), i), np.arange(len(c))], 1) for i, c in enumerate(containers)
        ]
        return cls(containers, np.concatenate(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: np.ndarray | slice) -> "Pictures":
        """Returns the pictures at these places of the order."""
        return Pictures(self.containers, self.rows[places])

    def resized(self, side: int) -> np.ndarray:
        """Returns uint8[n, side, side, 3]: whole pictures, squeezed to a square."""
        resized = np.empty((len(self), side, side, 3), np.uint8)
        for number, container in enumerate(self.containers):
            here = self.rows[:, 0] == number
            if here.any():
                resized[here] = container.resized(side)[self.rows[here, 1]]
        return resized

    def views(
        self, sides: Sequence[int], least: int = LEAST
    ) -> Iterator[tuple[tuple[np.ndarray, ...], int]]:
        """Yields batches: the pictures at each side, and how many of them are not filled up.

        Batches hold `BATCH` pictures, the last one the next power of two, `least` or more.
        """
        for start in range(0, len(self), BATCH):
            batch = self.take(slice(start, start + BATCH))
            count = len(batch)
            size = max(least, 1 << (count - 1).bit_length())
            places = np.minimum(np.arange(size), count - 1)
            yield tuple(batch.take(places).resized(side) for side in sides), count


def _unit(pictures):
    return jnp.asarray(pictures, jnp.float32) * (1 / 255)


@functools.cache
def maps_program(plan: Plan) -> Callable:
    """Returns f(views) → {"colour", "gradients"}: the maps that dictionaries are made of."""

    def feature_maps(views):
        return {
            _COLOUR: _unit(views[0]),
            _GRADIENTS: maps.oriented_gradients(_unit(views[-1]), views[-1].shape[1] // 16),
        }

    return feature_maps


@functools.cache
def parts_program(plan: Plan) -> Callable:
    """Returns f(views, dictionaries) → a list of (even, odd), one pair for each kind of feature."""

    def all_parts(views, dictionaries):
        pictures = [_unit(view) for view in views]
        found = [
            maps.parts(
                maps.oriented_gradients(each, each.shape[1] // maps.CELLS), maps.MIRRORED_BINS
            )
            for each in pictures
        ]
        if plan.pixels:
            found.append(maps.parts(maps.shrunk(pictures[0], plan.pixels)))
        if plan.patches:
            sources = maps_program(plan)(views)
            for name in plan.dictionaries:
                encoded = patches.encode(sources[name], **dictionaries[name], stride=_STRIDES[name])
                mirrored = patches.mirrored_members(encoded.shape[-1])
                found.append(maps.parts(jnp.sqrt(encoded), mirrored))
        return found

    return all_parts


@functools.cache
def embedding_program(plan: Plan) -> Callable:
    """Returns f(views, dictionaries, projection) → (even, odd), each float32[b, components]."""

    def embed(views, dictionaries, projection):
        found = parts_program(plan)(views, dictionaries)
        even = jnp.concatenate([pair[0] for pair in found], 1) @ projection["even"]
        odd = jnp.concatenate([pair[1] for pair in found], 1) @ projection["odd"]
        return even - projection["offset"], odd

    return embed


@functools.cache
def projection_program(components: int) -> Callable:
    """Returns f(parts) → projection, {"even", "odd"}: to `components` components of either half.

    Each kind of feature is scaled to a mean squared distance between pictures of 1, and so is the
    result. The components lie in the span of the pictures that are given (eigenvectors of their
    Gram matrix).
    """

    def principal(features):
        values, vectors = jnp.linalg.eigh(features @ features.T)
        values, vectors = values[::-1][:components], vectors[:, ::-1][:, :components]
        used = values > 1e-6 * values[0] + 1e-12
        lengths = jnp.sqrt(jnp.where(used, values, 1))
        return features.T @ (vectors * jnp.where(used, 1 / lengths, 0))

    def fit(found):
        scales = [
            1 / jnp.sqrt(2 * (even.var(0).sum() + odd.var(0).sum()) + 1e-9) for even, odd in found
        ]
        even, odd = (
            jnp.concatenate([p[half] * scale for p, scale in zip(found, scales, strict=True)], 1)
            for half in (0, 1)
        )
        mean = even.mean(0)
        by_even, by_odd = principal(even - mean), principal(odd)
        even, odd = (even - mean) @ by_even, odd @ by_odd
        size = 1 / jnp.sqrt(2 * (even.var(0).sum() + odd.var(0).sum()) + 1e-9)
        columns = jnp.concatenate(
            [jnp.full(p[0].shape[1], scale) for p, scale in zip(found, scales, strict=True)]
        )
        projection = {
            "even": by_even * columns[:, None] * size,
            "odd": by_odd * columns[:, None] * size,
            "offset": mean @ by_even * size,
        }
        return projection, {"even": even * size, "odd": odd * size}

    return fit


class Embedding:
    """Features of one task's pictures: their plan, dictionaries and projection.

    Args:
      plan: which features.
      tree: "dictionaries" and "projection", as `tree` of a fitted one.
    """

    def __init__(self, plan: Plan, tree: Mapping[str, Any]):
        self.plan, self.tree = plan, tree

    @classmethod
    def fit(
        cls, ctx: Context, plan: Plan, pictures: Pictures, components: int
    ) -> tuple["Embedding", Tree]:
        """Fits dictionaries and projection to pictures; returns the embedding, and theirs.

        Args:
          ctx: charged for it; patches are drawn from its generators.
          plan: which features.
          pictures: n of the task's, all of which are used.
          components: of the embedding, both halves together; no more than n.
        """
        dictionaries = _dictionaries(ctx, plan, pictures) if plan.patches else {}
        program = ctx.jit(parts_program(plan))
        batches = [
            [tuple(half[:count] for half in pair) for pair in program(views, dictionaries)]
            for views, count in pictures.views(plan.gradients)
        ]
        found = [
            tuple(jnp.concatenate(halves) for halves in zip(*pairs, strict=True))
            for pairs in zip(*batches, strict=True)
        ]
        half = max(1, min(components, len(pictures)) // 2)
        projection, embedded = ctx.jit(projection_program(half))(found)
        return cls(plan, {"dictionaries": dictionaries, "projection": projection}), embedded

    def batches(self, ctx: Context, pictures: Pictures) -> Iterator[tuple[Tree, int]]:
        """Yields {"even", "odd"}, float32[b, components / 2] each, and how many rows are pictures.

        The rows after these only fill up the batch.
        """
        program, tree = ctx.jit(embedding_program(self.plan)), jax.device_put(self.tree)
        least = 1 if ctx.sparing else LEAST
        for views, count in pictures.views(self.plan.gradients, least):
            even, odd = program(views, tree["dictionaries"], tree["projection"])
            yield {"even": even, "odd": odd}, count

    def __call__(self, ctx: Context, pictures: Pictures) -> dict[str, np.ndarray]:
        """Returns "even" and "odd", each float32[n, components / 2]."""
        batches = [
            {name: np.asarray(half)[:count] for name, half in batch.items()}
            for batch, count in self.batches(ctx, pictures)
        ]
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _dictionaries(ctx: Context, plan: Plan, pictures: Pictures) -> Tree:
    some = pictures.take(slice(_PICTURES_OF_PATCHES))
    program = ctx.jit(maps_program(plan))
    batches = [
        {name: np.asarray(array)[:count] for name, array in program(views).items()}
        for views, count in some.views(plan.gradients)
    ]
    dictionaries = {}
    for name in plan.dictionaries:
        source, mirrored = np.concatenate([batch[name] for batch in batches]), maps.MIRRORED_BINS
        if name == _COLOUR:
            if (source == source[..., :1]).all():  # grey pictures
                source = source[..., :1]
            mirrored = np.arange(source.shape[-1])
        generator = ctx.generator("patches", name)
        drawn = patches.sample(source, _SIDES[name], _DRAWN, generator)
        chosen = patches.sample(source, _SIDES[name], plan.patches // 2, generator)
        dictionaries[name] = ctx.jit(patches.dictionary)(drawn, chosen, mirrored)
    return dictionaries
