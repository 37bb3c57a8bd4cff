"""Multi-label data sets: one forward pass answers for all labels of an image, so a sampled image
gives all its values (Sort & Search, Appendix A)."""

from collections.abc import Sequence

import numpy as np

from nevis_stream.queries import sampling


def images_of(samples: Sequence[str]) -> np.ndarray | None:
    """Returns the image of each column, int64[n] from 0 in order of appearance; None unless all
    images have the same number of columns.

    Args:
      samples: ids of n columns, IMAGE#LABEL.
    """
    names = np.array([sample.rpartition("#")[0] for sample in samples], str)
    _, first, image, counts = np.unique(
        names, return_index=True, return_inverse=True, return_counts=True
    )
    return np.argsort(np.argsort(first))[image] if len(set(counts.tolist())) == 1 else None


def with_all_labels(columns: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Returns all columns of the images of some columns, int64[b'], ascending.

    >>> with_all_labels(np.array([3]), np.array([0, 0, 1, 1])).tolist()
    [2, 3]
    """
    return np.flatnonzero(np.isin(image, image[columns]))


def complete_images(samples: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Returns the columns that complete b images of each model, int64[m, b (labels - 1)].

    They are the other columns of the images of b asked columns. Where these have fewer than b
    images, further images are taken at equal distances among those that were not asked. If all
    columns were asked, nothing is left: int64[m, 0].

    Args:
      samples: int64[m, b], the asked columns.
      image: int64[n], as of `SampleFacts`.

    >>> complete_images(np.array([[0, 3], [0, 1]]), np.array([0, 0, 1, 1, 2, 2])).tolist()
    [[1, 2], [4, 5]]
    """
    models, budget = samples.shape
    if budget == len(image):
        return np.empty((models, 0), np.int64)
    columns_of = np.argsort(image, kind="stable").reshape(image.max() + 1, -1)
    rest = np.empty((models, budget * (columns_of.shape[1] - 1)), np.int64)
    for row, asked in zip(rest, samples, strict=True):
        chosen = np.unique(image[asked])
        spare = np.setdiff1d(np.arange(len(columns_of)), chosen)
        more = spare[sampling.centres(len(spare), budget - len(chosen))]
        whole = columns_of[np.concatenate([chosen, more])].reshape(-1)
        row[:] = whole[~np.isin(whole, asked)]
    return rest
