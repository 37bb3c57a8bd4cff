"""Studies of dynamic evaluation: how well methods estimate a new model from few of its answers."""

from nevis_stream.catalogue import find_shared_directory

SHARED = find_shared_directory() / "matrices"
