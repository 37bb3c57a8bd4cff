"""Pre-training: one backbone trained on one or several tasks of a stream, or weights of another library, as a file of weights.

What it costs, all trials and looks at the dev splits included, is written into the file, and every learner that starts from it
is charged for it once (phase `pretrain` of its ledger's first record).
"""

import functools
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import ml_collections
import numpy as np
import safetensors.numpy

from experiments import run_config
from learners.parts import layouts, weights
from learners.parts.baseline import Baseline
from learners.parts.joint import fit_jointly
from nevis_stream.errors import BadInput, NevisStreamError, unknown
from nevis_stream.learner import Context, Progress
from nevis_stream.ledger import encode
from nevis_stream.meter import total
from nevis_stream.npz import read_npz
from nevis_stream.storage import exclusive, write_file
from nevis_stream.stream import Stream
from nevis_stream.task import LabelledImages, TaskView
from nevis_stream.workspace import EventWorkspace

META_TRAIN = "meta_train"


def views(stream: Stream, tasks: Sequence[str]) -> list[TaskView]:
    """Returns train and dev splits of tasks by their ids; "meta_train" stands for all of S_Tr, each data set once.

    Raises:
      BadInput: an unknown task; valid ones are named.
    """
    by_id = {task.task_id: task for task in stream.tasks}
    if list(tasks) == [META_TRAIN]:
        first = {task.dataset_id: task for task in reversed(stream.tasks) if task.meta_split == "train"}
        chosen = sorted(first.values(), key=lambda task: task.order)
    else:
        for task_id in tasks:
            if task_id not in by_id:
                raise BadInput(unknown("task", task_id, [META_TRAIN, *by_id]))
        chosen = [by_id[task_id] for task_id in tasks]
    found = []
    for task in chosen:
        parts = {name: stream.splits(task)[name] for name in ("train", "dev")}
        labelled = {name: LabelledImages(part.images, part.labels) for name, part in parts.items()}
        found.append(TaskView(task.task_id, task.year, task.kind, task.domain, task.num_classes, **labelled))
    return found


def pretrain(
    config: ml_collections.ConfigDict,
    stream: Stream,
    tasks: Sequence[str],
    out: Path,
    stand_in: str = "",
    checkpoint_seconds: float = 30.0,
    progress: Progress | None = None,
) -> weights.Facts:
    """Trains a backbone and writes it to `out`; started again after a kill it goes on from `out`.progress.

    Args:
      config: resolved; its network, search, train, augmentation and seed are used.
      stream: where the tasks stand.
      tasks: their ids, or ("meta_train",).
      out: file of weights.
      stand_in: of what these weights take the place, in words.
      checkpoint_seconds: least time between saved positions.
      progress: told what is going on.

    Raises:
      BadInput: unknown tasks, or no trial that did not diverge.
    """
    learner = _learner(config)
    chosen = views(stream, tasks)
    told = f"{', '.join(task.task_id for task in chosen)} (stream {stream.name})"
    if list(tasks) == [META_TRAIN]:
        told = f"the {len(chosen)} data sets of the meta-train part of {stream.name}"
    identity = encode({"config": run_config.to_json(config), "tasks": list(tasks), "stream": stream.digest})
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    folder = out.with_name(f"{out.name}.progress")
    with exclusive(folder / "lock", busy="is pre-training into this file. Wait for it or stop it, or choose another --out."):
        workspace = EventWorkspace(folder / key, checkpoint_seconds)
        ctx = Context(path=(f"seed {config.seed}", "pretrain"), phase="pretrain", workspace=workspace, progress=progress)
        trial = functools.partial(fit_jointly, tasks=chosen, recipe=learner.recipe)
        results = learner.search.run(ctx.seed, functools.partial(ctx.map, trial))
        sound = [result for result in results if result["info"]["dev_error"] is not None]
        if not sound:
            raise BadInput(f"all {len(results)} trials diverged: lower config.search.learning_rate.")
        best = min(sound, key=lambda result: result["info"]["dev_error"])
        facts = weights.Facts(weights.describe(learner.recipe.network), told, total(ctx.meter.counts()), stand_in)
        write_file(out, weights.encode(best["variables"], facts))
        record = {"trials": [result["info"] for result in results], "flops": ctx.meter.counts(), "chosen": best["info"]}
        write_file(out.with_name(f"{out.name}.json"), json.dumps(record, indent=1, sort_keys=True).encode())
    shutil.rmtree(folder)
    return facts


def import_weights(
    config: ml_collections.ConfigDict, file: Path, layout: str, out: Path, trained_on: str, flops: int, stand_in: str = ""
) -> weights.Facts:
    """Writes weights of another library (safetensors or npz) as a file of weights.

    Args:
      config: resolved; its network says what the file holds.
      file: arrays by the names of the other library.
      layout: one of `layouts.layouts()`.
      out: file of weights.
      trained_on: what they were trained on, in words.
      flops: what that cost.
      stand_in: of what they take the place, if of anything.

    Raises:
      BadInput: an unreadable file, an unknown layout, or an array that does not fit; the message names it.
    """
    network = _learner(config).recipe.network
    variables = layouts.convert(_arrays(file), layout, network.backbone())
    facts = weights.Facts(weights.describe(network), trained_on, flops, stand_in)
    write_file(out, weights.encode(variables, facts))
    return facts


def _learner(config: ml_collections.ConfigDict) -> Baseline:
    learner = run_config.build(config)
    if not isinstance(learner, Baseline):
        raise BadInput(f"learner {config.learner} has no network to pre-train; take --config=experiments/configs/indep.py.")
    return learner


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        if file.suffix == ".npz":
            return read_npz(file)
        if file.suffix == ".safetensors":
            return safetensors.numpy.load_file(file)
    except FileNotFoundError:
        raise BadInput(f"{file}: no such file.") from None
    except NevisStreamError:
        raise
    except Exception as error:
        raise BadInput(f"{file}: cannot be read ({error}).") from None
    raise BadInput(f"{file}: weights are read from .safetensors or .npz files (torch: safetensors.torch.save_file).")
