"""Measures the cost of storing the worst mistakes, and that of the outcomes of the same answers.

  python -m benchmarks.mistakes

Prints the CPU seconds of the two files of one predict event, for 50,000 random answers over 1,000
classes and 32x32 images in memory.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.launch import entry
from nevis_stream.run_directory import outcomes

N, CLASSES, ROUNDS = 50_000, 1_000, 5


def main(_) -> None:
    """Prints the CPU seconds of each round."""
    random = np.random.RandomState(0)
    probabilities = random.rand(N, CLASSES).astype(np.float32)
    probabilities /= probabilities.sum(1, keepdims=True)
    images = ArrayImages(random.randint(255, size=(N, 32, 32, 3)).astype(np.uint8))
    samples = Samples(
        images, random.randint(CLASSES, size=N).astype(np.int32), [f"d/all/{i}" for i in range(N)]
    )
    for number in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            start = time.process_time()
            outcomes.find_fault(probabilities, N, SINGLE_LABEL, CLASSES)
            outcomes.write(Path(directory) / "a.npz", samples, SINGLE_LABEL, probabilities)
            between = time.process_time()
            outcomes.write_mistakes(
                Path(directory), "a", "test", "0" * 16, samples, SINGLE_LABEL, probabilities
            )
            end = time.process_time()
        print(
            f"round {number + 1}: outcomes {between - start:.3f} CPU-s, mistakes"
            f" {end - between:.3f} CPU-s"
        )


if __name__ == "__main__":
    entry.start(main)
