"""Kernel ridge regression: exact, with leave-one-out answers, and by Nyström's method.

Means over the images are subtracted from the targets and added to the answers.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular


def compute_kernel(left, right, width, mirrored):
    """Returns float32[a, b]: exp(−squared distance / width), averaged over mirror images.

    An image is (e, o), its even and odd parts, and its mirror image (e, −o), so both distances use
    the same products.

    Args:
      left: {"even": float32[a, k], "odd": float32[a, l]}, an embedding.
      right: the same, for b images.
      width: a squared distance.
      mirrored: 1 for (k(x, y) + k(x, mirrored y)) / 2, 0 for k(x, y).
    """
    squares = [(part["even"] ** 2).sum(1) + (part["odd"] ** 2).sum(1) for part in (left, right)]
    odd = left["odd"] @ right["odd"].T
    even = squares[0][:, None] + squares[1] - 2 * (left["even"] @ right["even"].T)
    same = jnp.exp(-jnp.maximum(even - 2 * odd, 0) / width)
    other = jnp.exp(-jnp.maximum(even + 2 * odd, 0) / width)
    return same + mirrored * 0.5 * (other - same)


BLOCK = 2048
# Added to the diagonal of the centres' kernel matrix, as float32 requires; a larger one is for
# thousands of nearly equal centres.
JITTERS = (2e-4, 2e-3, 2e-2)


def solve(embedded, targets, width, mirrored, regularisation):
    """Returns the factor L of K + λ1 = L Lᵀ and the coefficients (K + λ1)⁻¹ targets.

    Args:
      embedded: {"even", "odd"}, float32[n, …] each.
      targets: float32[n, outputs].
      width: the kernel's width.
      mirrored: 1 if mirror images count as the same image, otherwise 0.
      regularisation: λ.
    """
    matrix = compute_kernel(embedded, embedded, width, mirrored)
    factor = jnp.linalg.cholesky(matrix + regularisation * jnp.eye(len(matrix)))
    return factor, _solve(factor, targets)


def _solve(factor, right):
    """Returns (L Lᵀ)⁻¹ right."""
    half = solve_triangular(factor, right, lower=True)
    return solve_triangular(factor, half, lower=True, trans=1)


def predict_left_out(factor, coefficients, targets, positions):
    """Returns float32[j, outputs]: each image answered by a fit to all the others.

    The answer is target − coefficient / (K + λ1)⁻¹ᵢᵢ (Rasmussen and Williams 2006, equation 5.12),
    which is exact if the targets are not centred again without the image.

    Args:
      factor: from `solve`.
      coefficients: from `solve`.
      targets: those given to `solve`.
      positions: int[j], the images to answer.
    """
    columns = jnp.arange(len(positions))
    units = jnp.zeros((len(factor), len(positions))).at[positions, columns].set(1.0)
    diagonal = (solve_triangular(factor, units, lower=True) ** 2).sum(0)
    return targets[positions] - coefficients[positions] / diagonal[:, None]


def fit_nystrom(
    centres, embedded, targets, weights, jitter, width, mirrored, regularisation, iterations
):
    """Returns float32[m, outputs]: coefficients of m centres, fitted to n images.

    They minimise |K_nm a − targets|² + λ aᵀ K_mm a, by conjugate gradients with the preconditioner
    of Rudi, Carratino and Rosasco (2017, FALKON, equation 13). The preconditioner is exact if the
    images are the centres; otherwise it estimates the images' kernel matrix from the centres. 10 to
    20 iterations are enough. The coefficients are not finite if the jitter is too small.

    Args:
      centres: {"even", "odd"}, float32[m, …] each.
      embedded: {"even", "odd"}, float32[blocks, b, …] each: n images in padded blocks.
      targets: float32[blocks, b, outputs].
      weights: float32[blocks, b]: 1 for an image, 0 for padding and for images that are left out.
      jitter: added to the diagonal of the centres' kernel matrix, one of `JITTERS`.
      width: the kernel's width.
      mirrored: 1 if mirror images count as the same image, otherwise 0.
      regularisation: λ.
      iterations: number of steps, fixed when the program is compiled.
    """
    matrix = compute_kernel(centres, centres, width, mirrored)
    m = len(matrix)
    inner = jnp.linalg.cholesky(matrix + jitter * jnp.eye(m))
    scale = weights.sum() / m
    outer = jnp.linalg.cholesky(scale * (inner.T @ inner) + regularisation * jnp.eye(m))
    rows = jax.lax.map(
        lambda block: compute_kernel(block[0], centres, width, mirrored) * block[1][:, None],
        (embedded, weights),
    )

    def to_centres(u):
        half = solve_triangular(outer, u, lower=True, trans=1)
        return solve_triangular(inner, half, lower=True, trans=1), half

    def from_centres(v):
        return solve_triangular(outer, solve_triangular(inner, v, lower=True), lower=True)

    def operator(u):
        a, half = to_centres(u)
        fitted = jax.lax.map(lambda block: block.T @ (block @ a), rows).sum(0)
        return from_centres(fitted) + regularisation * solve_triangular(outer, half, lower=True)

    def step(carry, _):
        u, residual, direction, square = carry
        image = operator(direction)
        length = square / jnp.maximum((direction * image).sum(0), 1e-30)
        u, residual = u + length * direction, residual - length * image
        new = (residual**2).sum(0)
        direction = residual + new / jnp.maximum(square, 1e-30) * direction
        return (u, residual, direction, new), None

    right = from_centres(jax.lax.map(lambda pair: pair[0].T @ pair[1], (rows, targets)).sum(0))
    start = (jnp.zeros_like(right), right, right, (right**2).sum(0))
    (u, *_), _ = jax.lax.scan(step, start, length=iterations)
    return to_centres(u)[0]


def split_into_blocks(array: np.ndarray) -> np.ndarray:
    """Returns [blocks, b, …]: the rows in blocks of equal size, at most `BLOCK`, padded with zeros.

    >>> split_into_blocks(np.ones((3, 2))).shape
    (1, 3, 2)
    """
    blocks = -(-len(array) // BLOCK)
    size = -(-len(array) // blocks)
    missing = blocks * size - len(array)
    padded = np.pad(array, ((0, missing), *((0, 0),) * (array.ndim - 1)))
    return padded.reshape(blocks, size, *array.shape[1:])


def predict_scores(embedded, centres, coefficients, means, width, mirrored):
    """Returns float32[b, outputs]: the scores of b images."""
    return compute_kernel(embedded, centres, width, mirrored) @ coefficients + means
