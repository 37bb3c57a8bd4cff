"""Images as vectors: all their feature maps at one scale, reduced to principal components.

An embedding has an even and an odd half (see `maps`): mirroring the image leaves the even half
unchanged and flips the sign of the odd half.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import choose_convolution_options
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context
from nevis_stream.learners.closed_form import maps, patches
from nevis_stream.learners.closed_form.config import CELL_SIDE
from nevis_stream.storage.checkpoint import Tree

BATCH, LEAST = 256, 64
_AT_ONCE = 32  # images whose maps are computed together: they stay in a CPU's cache
_IMAGES_FOR_PATCHES = 512
_PATCHES = 8192  # patches from which a dictionary is computed
_PATCH_COMPONENTS = 20  # in which patches are compared
_COLOUR_SIDE = 64  # patches of colours are cut at the largest image size up to this one
_CELLS = (4, 8)  # sizes in pixels of the cells of gradients that patches are cut from
_CELLS_IN_A_ROW = 16  # as many cells of that size must be in a row of the largest image
_WEIGHTS = {"gradients": 1.0, "pixels": 0.3, "patches": 3.0}  # with patches; all 1 without


@dataclass(frozen=True)
class PatchSource:
    """What the patches of a dictionary are cut from, and where.

    Attributes:
      view: the position of the image size in `FeaturePlan.gradients`.
      cell: the size of a cell of oriented gradients, in pixels; 0: patches of colours.
    """

    view: int
    cell: int

    @property
    def name(self) -> str:
        """The name of the dictionary."""
        return f"gradients_{self.cell}" if self.cell else "colour"

    @property
    def side(self) -> int:
        """The side of a patch, in cells of gradients or pixels of colours."""
        return 4 if self.cell else 6

    @property
    def stride(self) -> int:
        """The distance between neighbouring patches, in cells or pixels."""
        return 1 if self.cell else 4

    @property
    def contrast(self) -> bool:
        """Whether patches are normalised; oriented gradients already are."""
        return not self.cell

    @property
    def map_key(self) -> tuple[int, int]:
        """The key of the map in `_feature_maps`."""
        return self.view, self.cell


@dataclass(frozen=True)
class FeaturePlan:
    """Which features are computed from an image.

    Attributes:
      gradients: image sizes in pixels, multiples of 16, at which oriented gradients are computed;
        the reduced image is taken at the first one.
      pixels: size of the reduced image in pixels; 0 if there is none.
      patches: number of visual words in each dictionary; 0 if there is no dictionary.
    """

    gradients: tuple[int, ...]
    pixels: int
    patches: int

    @property
    def sources(self) -> tuple[PatchSource, ...]:
        """What each dictionary's patches are cut from; none without patches."""
        if not self.patches:
            return ()
        small = [view for view, side in enumerate(self.gradients) if side <= _COLOUR_SIDE]
        last, largest = len(self.gradients) - 1, self.gradients[-1]
        cells = [cell for cell in _CELLS if largest >= _CELLS_IN_A_ROW * cell]
        return PatchSource(max(small, default=0), 0), *(PatchSource(last, cell) for cell in cells)

    @property
    def weights(self) -> tuple[float, ...]:
        """The share of each kind of feature in the mean squared distance between images."""
        kinds = ["gradients"] * len(self.gradients) + ["pixels"] * bool(self.pixels)
        kinds += ["patches"] * len(self.sources)
        return tuple(_WEIGHTS[kind] if self.patches else 1.0 for kind in kinds)


@dataclass(frozen=True)
class ImageSelection:
    """Images chosen from one or several containers, in a fixed order.

    Attributes:
      containers: the containers.
      rows: int[n, 2], the number of each image's container and its position in it.
    """

    containers: Sequence[Images]
    rows: np.ndarray

    @classmethod
    def all_of(cls, *containers: Images) -> "ImageSelection":
        """Returns all images of the containers, in order."""
        rows = [
            np.stack([np.full(len(c), i), np.arange(len(c))], 1) for i, c in enumerate(containers)
        ]
        return cls(containers, np.concatenate(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: np.ndarray | slice) -> "ImageSelection":
        """Returns the images at these positions."""
        return ImageSelection(self.containers, self.rows[positions])

    def resized(self, side: int) -> np.ndarray:
        """Returns uint8[n, side, side, 3]: each image resized to a square, without cropping."""
        resized = np.empty((len(self), side, side, 3), np.uint8)
        for number, container in enumerate(self.containers):
            inside = self.rows[:, 0] == number
            if inside.any():
                resized[inside] = container.resized_rows(side, self.rows[inside, 1])
        return resized

    def views(
        self, sides: Sequence[int], least: int = LEAST
    ) -> Iterator[tuple[tuple[np.ndarray, ...], int]]:
        """Yields batches: the images at each size, and how many of them are not padding.

        A batch has `BATCH` images; the last one is padded to a power of two, at least `least`.
        """
        for start in range(0, len(self), BATCH):
            batch = self.take(slice(start, start + BATCH))
            count = len(batch)
            size = max(least, 1 << (count - 1).bit_length())
            padded = batch.take(np.minimum(np.arange(size), count - 1))
            yield tuple(padded.resized(side) for side in sides), count


def _feature_maps(views, wanted: Collection[tuple[int, int]]):
    """Returns {(view, cell): float32[b, rows, columns, channels]}.

    Args:
      views: the images at each size, uint8[b, side, side, 3].
      wanted: number of a view, and size of the cells of its oriented gradients; 0: its colours in
        [0, 1].
    """
    found = {}
    for number in sorted({view for view, _ in wanted}):
        found[number, 0] = images = jnp.asarray(views[number], jnp.float32) * (1 / 255)
        cells = {cell for view, cell in wanted if view == number and cell}
        gradients = maps.compute_oriented_gradients(images, cells) if cells else {}
        found |= {(number, cell): histograms for cell, histograms in gradients.items()}
    return found


def _in_blocks(function: Callable, views):
    """Returns `function` of the images at all sizes, applied to `_AT_ONCE` images at a time."""
    size = min(_AT_ONCE, len(views[0]))
    blocks = [view.reshape(-1, size, *view.shape[1:]) for view in views]
    results = jax.lax.map(function, blocks)
    return jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), results)


@functools.cache
def make_sources_program(plan: FeaturePlan) -> Callable:
    """Returns f(views) → the maps of every dictionary, by its name.

    The number of images must be a power of two.
    """

    def maps_of(views):
        found = _feature_maps(views, [source.map_key for source in plan.sources])
        return {source.name: found[source.map_key] for source in plan.sources}

    def sources(views):
        return _in_blocks(maps_of, views)

    return sources


@functools.cache
def make_parts_program(plan: FeaturePlan) -> Callable:
    """Returns f(views, dictionaries) → a list of (even, odd), one pair for each kind of feature.

    The number of images must be a power of two.
    """
    gradients = [(view, side // CELL_SIDE) for view, side in enumerate(plan.gradients)]

    def parts_of(views, dictionaries):
        found = _feature_maps(views, gradients + [source.map_key for source in plan.sources])
        parts = [maps.split_by_symmetry(found[key], maps.MIRRORED_BINS) for key in gradients]
        if plan.pixels:
            parts.append(maps.split_by_symmetry(maps.shrink(found[0, 0], plan.pixels)))
        for source in plan.sources:
            encoded = patches.encode(
                found[source.map_key],
                **dictionaries[source.name],
                stride=source.stride,
                contrast=source.contrast,
            )
            parts.append(
                maps.split_by_symmetry(encoded, patches.match_mirrored_words(encoded.shape[-1]))
            )
        return parts

    def all_parts(views, dictionaries):
        return _in_blocks(lambda block: parts_of(block, dictionaries), views)

    # 7 times as fast for 9 channels
    all_parts.compiler_options = choose_convolution_options()  # type: ignore[attr-defined]
    return all_parts


@functools.cache
def make_embedding_program(plan: FeaturePlan) -> Callable:
    """Returns f(views, dictionaries, projection) → (even, odd), each float32[b, components]."""

    def embed(views, dictionaries, projection):
        parts = make_parts_program(plan)(views, dictionaries)
        even = jnp.concatenate([even for even, _ in parts], 1) @ projection["even"]
        odd = jnp.concatenate([odd for _, odd in parts], 1) @ projection["odd"]
        return even - projection["offset"], odd

    # as `make_parts_program`
    embed.compiler_options = choose_convolution_options()  # type: ignore[attr-defined]
    return embed


@functools.cache
def make_projection_program(components: int, weights: tuple[float, ...]) -> Callable:
    """Returns f(parts) → projection, {"even", "odd"}, with `components` components in each half.

    Each kind of feature is scaled so that the mean squared distance between images is its weight,
    and the result so that it is 1. The components lie in the span of the images (eigenvectors of
    their Gram matrix).
    """

    def principal(features):
        values, vectors = jnp.linalg.eigh(features @ features.T)
        values, vectors = values[::-1][:components], vectors[:, ::-1][:, :components]
        used = values > 1e-6 * values[0] + 1e-12
        lengths = jnp.sqrt(jnp.where(used, values, 1))
        return features.T @ (vectors * jnp.where(used, 1 / lengths, 0))

    def fit(parts):
        scales = [
            jnp.sqrt(weight / (2 * (even.var(0).sum() + odd.var(0).sum()) + 1e-9))
            for weight, (even, odd) in zip(weights, parts, strict=True)
        ]
        even, odd = (
            jnp.concatenate([p[half] * scale for p, scale in zip(parts, scales, strict=True)], 1)
            for half in (0, 1)
        )
        mean = even.mean(0)
        even_axes, odd_axes = principal(even - mean), principal(odd)
        even, odd = (even - mean) @ even_axes, odd @ odd_axes
        size = 1 / jnp.sqrt(2 * (even.var(0).sum() + odd.var(0).sum()) + 1e-9)
        columns = jnp.concatenate(
            [jnp.full(p[0].shape[1], scale) for p, scale in zip(parts, scales, strict=True)]
        )
        projection = {
            "even": even_axes * columns[:, None] * size,
            "odd": odd_axes * columns[:, None] * size,
            "offset": mean @ even_axes * size,
        }
        return projection, {"even": even * size, "odd": odd * size}

    return fit


class Embedding:
    """Features of one task's images: their plan, dictionaries and projection.

    Args:
      plan: which features.
      tree: {"dictionaries", "projection"}, the attribute `tree` of a fitted embedding.
    """

    def __init__(self, plan: FeaturePlan, tree: Mapping[str, Any]):
        self.plan, self.tree = plan, tree

    @classmethod
    def fit(
        cls, ctx: Context, plan: FeaturePlan, images: ImageSelection, components: int
    ) -> tuple["Embedding", Tree]:
        """Fits dictionaries and projection; returns the embedding and the embedded images.

        Args:
          ctx: its generators draw the patches; the FLOPs are charged to it.
          plan: which features.
          images: n images of the task, all used for the projection, the first
            `_IMAGES_FOR_PATCHES` for the dictionaries.
          components: number of components in both halves together, even; each has at most n.
        """
        dictionaries = _dictionaries(ctx, plan, images) if plan.patches else {}
        program = ctx.jit(make_parts_program(plan))
        batches = [
            [tuple(half[:count] for half in pair) for pair in program(views, dictionaries)]
            for views, count in images.views(plan.gradients)
        ]
        parts = [
            tuple(jnp.concatenate(halves) for halves in zip(*pairs, strict=True))
            for pairs in zip(*batches, strict=True)
        ]
        half = max(1, min(components // 2, len(images)))
        projection, embedded = ctx.jit(make_projection_program(half, plan.weights))(parts)
        return cls(plan, {"dictionaries": dictionaries, "projection": projection}), embedded

    def batches(self, ctx: Context, images: ImageSelection) -> Iterator[tuple[Tree, int]]:
        """Yields {"even", "odd"}, each float32[b, components / 2], and the number of images in it.

        The rows after the images are padding.
        """
        program, tree = ctx.jit(make_embedding_program(self.plan)), jax.device_put(self.tree)
        least = 1 if ctx.small_batches else LEAST
        for views, count in images.views(self.plan.gradients, least):
            even, odd = program(views, tree["dictionaries"], tree["projection"])
            yield {"even": even, "odd": odd}, count

    def __call__(self, ctx: Context, images: ImageSelection) -> dict[str, np.ndarray]:
        """Returns "even" and "odd", each float32[n, components / 2]."""
        # filled in place: joining batches would need twice the memory
        embedded = {
            name: np.empty((len(images), self.tree["projection"][name].shape[1]), np.float32)
            for name in ("even", "odd")
        }
        start = 0
        for batch, count in self.batches(ctx, images):
            for name, half in batch.items():
                embedded[name][start : start + count] = half[:count]
            start += count
        return embedded


def _dictionaries(ctx: Context, plan: FeaturePlan, images: ImageSelection) -> Tree:
    first = images.take(slice(_IMAGES_FOR_PATCHES))
    program = ctx.jit(make_sources_program(plan))
    batches = [
        {name: np.asarray(array)[:count] for name, array in program(views).items()}
        for views, count in first.views(plan.gradients)
    ]
    dictionaries = {}
    for source in plan.sources:
        values = np.concatenate([batch[source.name] for batch in batches])
        mirrored = maps.MIRRORED_BINS
        if not source.cell:
            if (values == values[..., :1]).all():  # grey images
                values = values[..., :1]
            mirrored = np.arange(values.shape[-1])
        cut = patches.sample(values, source.side, _PATCHES, ctx.generator("patches", source.name))
        components = min(_PATCH_COMPONENTS, cut[0].size)
        fit = ctx.jit(patches.make_dictionary_program(plan.patches, components, source.contrast))
        dictionaries[source.name] = fit(cut, mirrored)
    return dictionaries
