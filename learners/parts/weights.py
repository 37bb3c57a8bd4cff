"""Files of pre-trained weights: a backbone and the facts that results must state."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy
from flax.traverse_util import flatten_dict, unflatten_dict

from nevis_stream.errors import BadInput
from nevis_stream.learners.parts.model import Network, initialise_program
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.storage.reading import open_file, parse_json

_FACTS = "nevis_stream"


@dataclass(frozen=True)
class Facts:
    """The facts in a file of weights.

    Attributes:
      network: name, options and resolution of the network (`Network` as JSON).
      trained_on: description of the training data.
      flops: FLOPs of pre-training, including all trials and looks; of imported weights, what the
        user stated.
      stand_in: the data set that these weights replace because it is not available; else empty.
    """

    network: Mapping[str, Any]
    trained_on: str
    flops: int
    stand_in: str = ""


def describe_network(network: Network) -> dict[str, Any]:
    """Returns name, options and resolution of a network as JSON, without its precision."""
    options = json.loads(json.dumps(dict(network.options)))
    return {"name": network.name, "options": options, "resolution": network.resolution}


def encode(variables: Mapping[str, Any], facts: Facts) -> bytes:
    """Returns the content of a file of {"params": {"backbone"}, "batch_stats"}, without a head."""
    tree = {"backbone": variables["params"]["backbone"], "batch_stats": variables["batch_stats"]}
    arrays = {
        name: np.ascontiguousarray(array) for name, array in flatten_dict(tree, sep="/").items()
    }
    return safetensors.numpy.save(arrays, {_FACTS: json.dumps(dataclasses.asdict(facts))})


def read_facts(path: Path) -> Facts:
    """Returns the facts in a file of weights.

    Raises:
      BadInput: no such file, or `launch.pretrain` did not write it; the message says what to do.
    """
    try:
        # the errors of open() say why a file cannot be read
        with open_file(path), safetensors.safe_open(path, "numpy") as file:
            return Facts(**parse_json(file.metadata()[_FACTS]))
    except FileNotFoundError:
        raise BadInput(
            f"{path}: no such file of weights; make one with python -m launch.pretrain."
        ) from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError):
        raise BadInput(
            f"{path}: not a file of weights that launch.pretrain wrote. To import weights of"
            " another library: python -m launch.pretrain --import_file."
        ) from None


def digest(path: Path) -> str:
    """Returns the first 16 hex digits of the file's sha256."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@functools.lru_cache(maxsize=2)
def load(path: Path, network: Network, expected_digest: str = "") -> Tree:
    """Returns {"params": {"backbone"}, "batch_stats"} for a network.

    Raises:
      BadInput: the weights belong to another network (the message names both, and the first array
        that differs), or the file has another digest.
    """
    facts = read_facts(path)
    if expected_digest and (actual := digest(path)) != expected_digest:
        raise BadInput(
            f"{path}: the file has changed since the run began (its digest is {actual}, it was"
            f" {expected_digest})."
        )
    arrays = safetensors.numpy.load_file(path)
    expected = jax.eval_shape(
        initialise_program(network, 64), jax.ShapeDtypeStruct((4,), np.uint32)
    )
    expected = {"backbone": expected["params"]["backbone"], "batch_stats": expected["batch_stats"]}
    for name, array in flatten_dict(expected, sep="/").items():
        shape = arrays[name].shape if name in arrays else "missing"
        if shape != array.shape:
            raise BadInput(
                f"{path}: these weights belong to {facts.network}, but the config has"
                f" {describe_network(network)} ({name}: {array.shape} expected, {shape} found). Set"
                " config.network as in the file."
            )
    tree = unflatten_dict(arrays, sep="/")
    return {"params": {"backbone": tree["backbone"]}, "batch_stats": tree.get("batch_stats", {})}
