"""Images for rollouts: a single-label data set of the catalogue or a file, at 32×32 pixels."""

import hashlib
from pathlib import Path

import numpy as np

from nevis_stream import catalogue
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.errors import BadInput, unknown
from nevis_stream.experiments.rollouts.network import SIDE
from nevis_stream.experiments.rollouts.training import BATCH, ImagePool

EMBEDDED, SHARED = "pico_digits", "fashion_mnist"


def default_data() -> str:
    """Returns the data set of the default study: Fashion-MNIST if this machine has it, else one
    that the package carries."""
    ready = sources.state(catalogue.datasets()[SHARED]["source"]).ready
    return SHARED if ready else EMBEDDED


def load_pool(data: str, images: int) -> tuple[ImagePool, str]:
    """Returns the first images of a data set's training part and their fingerprint, 16 hex digits.

    Args:
      data: id of a data set of the catalogue; or the name of a file in the folder of shared data
        sets, without .npz; or the path of a file.
      images: number of images; fewer if the training part has fewer.

    Raises:
      BadInput: an unknown or missing data set, a multi-label one, or fewer than a batch of images.
    """
    known = catalogue.datasets()
    file = f"data/{data}.npz"
    if data in known:
        name, source = data, known[data]["source"]
    elif Path(data).exists():
        name, source = Path(data).stem, f"file:{data}"
    elif (catalogue.shared_directory() / file).exists():
        name, source = data, f"shared:{file}"
    else:
        raise BadInput(
            f"--data: {unknown('data set', data, known)} Or the name of a file in the folder that"
            " NEVIS_STREAM_SHARED names, or the path of a file."
        )
    dataset = sources.load(name, source)
    if dataset.kind != SINGLE_LABEL:
        raise BadInput(f"--data={data}: is multi-label; rollouts need single-label data.")
    samples = dataset.parts["train" if "train" in dataset.parts else "all"]
    if min(images, len(samples)) < BATCH:
        raise BadInput(f"--images={images}: at least {BATCH} are needed; there are {len(samples)}.")
    samples = samples.take(np.arange(min(images, len(samples))))
    pixels, labels = samples.images.resized(SIDE), samples.labels.astype(np.int32)
    fingerprint = hashlib.sha256(pixels.tobytes() + labels.tobytes()).hexdigest()[:16]
    return ImagePool(pixels, labels, dataset.num_classes), fingerprint
