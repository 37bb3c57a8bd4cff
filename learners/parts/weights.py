"""Pre-trained weights: a safetensors file with a backbone and the facts that results must state."""

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

from learners.parts.model import Network, initialise_program
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.checkpoint import Tree

_FACTS = "nevis_stream"


@dataclass(frozen=True)
class Facts:
    """What a file of weights says about itself.

    Attributes:
      network: name, options and resolution of the network (`Network` as JSON).
      trained_on: what it was trained on, in words.
      flops: what pre-training cost, all trials and looks included; stated by whoever imports
        weights.
      stand_in: what these weights replace because it is not available; empty for the original.
    """

    network: Mapping[str, Any]
    trained_on: str
    flops: int
    stand_in: str = ""


def describe(network: Network) -> dict[str, Any]:
    """Returns name, options and resolution of a network as JSON.

    Precision is not part of the weights.
    """
    options = json.loads(json.dumps(dict(network.options)))
    return {"name": network.name, "options": options, "resolution": network.resolution}


def encode(variables: Mapping[str, Any], facts: Facts) -> bytes:
    """Returns the content of a file with {"params": {"backbone"}, "batch_stats"}.

    A head is left out: a task has its own.
    """
    tree = {"backbone": variables["params"]["backbone"], "batch_stats": variables["batch_stats"]}
    arrays = {
        name: np.ascontiguousarray(array) for name, array in flatten_dict(tree, sep="/").items()
    }
    return safetensors.numpy.save(arrays, {_FACTS: json.dumps(dataclasses.asdict(facts))})


def read_facts(path: Path) -> Facts:
    """Returns what the file says about itself.

    Raises:
      BadInput: no such file, or not one that `launch.pretrain` wrote; the message says what to do.
    """
    try:
        # open says why it cannot
        with open(path, "rb"), safetensors.safe_open(path, "numpy") as file:
            return Facts(**json.loads(file.metadata()[_FACTS]))
    except FileNotFoundError:
        raise BadInput(
            f"{path}: no such file of weights; make one with python -m launch.pretrain."
        ) from None
    except OSError as error:
        raise BadInput(
            f"{path}: weights cannot be read from it ({error.strerror or error})."
        ) from None
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError):
        raise BadInput(
            f"{path}: not a file of weights with their facts. Weights of another library are"
            " imported with python -m launch.pretrain --import_file."
        ) from None


def digest(path: Path) -> str:
    """Returns the first 16 hex digits of the file's sha256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@functools.lru_cache(maxsize=2)
def load(path: Path, network: Network, expected_digest: str = "") -> Tree:
    """Returns {"params": {"backbone"}, "batch_stats"} for a network.

    Raises:
      BadInput: the weights are those of another network; the message names both, or the first array
        that differs. Or the file's digest is not the expected one.
    """
    facts = read_facts(path)
    if expected_digest and (actual := digest(path)) != expected_digest:
        raise BadInput(
            f"{path}: the file was changed since the run began (digest {actual}, {expected_digest}"
            " then)."
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
                f"{path}: these are weights of {facts.network}, the config asks for"
                f" {describe(network)} ({name}: {array.shape} expected, {shape} found). Set"
                " config.network as in the file."
            )
    tree = unflatten_dict(arrays, sep="/")
    return {"params": {"backbone": tree["backbone"]}, "batch_stats": tree.get("batch_stats", {})}
