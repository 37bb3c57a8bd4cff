"""Trees of any structure, such as the states of optax, saved as their leaves."""

from typing import Any

import numpy as np

from nevis_stream.errors import LearnerFault


def leaves(tree: Any, like: Any) -> list[Any]:
    """Returns the leaves of a tree as they are saved, JAX keys as their data.

    Raises:
      LearnerFault: its structure is another one than that of `like`.
    """
    import jax

    found, structure = jax.tree.flatten(tree)
    if structure != jax.tree.structure(like):
        raise LearnerFault(
            f"ctx.checkpoint: the tree is {structure}, but ctx.restore was called with like ="
            f" {jax.tree.structure(like)}."
        )
    return [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in found]


def rebuild(tree: Any, like: Any) -> Any:
    """Returns a tree of the structure of `like` with the leaves of `tree`, as `leaves` saved them.

    Raises:
      LearnerFault: their number, a shape or a dtype differs.
    """
    import jax

    found, (wanted, structure) = jax.tree.leaves(tree), jax.tree.flatten(like)
    if len(found) != len(wanted):
        raise LearnerFault(
            f"ctx.restore: {len(found)} leaves were saved, but like has {len(wanted)}. Was the"
            " learner changed since?"
        )
    return jax.tree.unflatten(structure, map(_fitting, found, wanted))


def _fitting(leaf: Any, wanted: Any) -> Any:
    import jax

    if _is_key(wanted):
        return jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(wanted))
    shapes = [getattr(each, "shape", None) for each in (leaf, wanted)]
    dtypes = [getattr(each, "dtype", type(each)) for each in (leaf, wanted)]
    if shapes[0] != shapes[1] or dtypes[0] != dtypes[1]:
        raise LearnerFault(
            f"ctx.restore: {dtypes[0]}{list(shapes[0] or ())} was saved, but like has"
            f" {dtypes[1]}{list(shapes[1] or ())} in its place. Was the learner changed since?"
        )
    return leaf


def _is_key(leaf: Any) -> bool:
    """Whether it is an array of JAX keys, whose dtype NumPy does not have."""
    return not hasattr(getattr(leaf, "dtype", np.dtype(int)), "kind")
