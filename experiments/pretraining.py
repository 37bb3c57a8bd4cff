"""Pre-training: a file of weights from tasks of a stream, or from another library's weights.

What it costs, all trials and looks at the dev splits included, is written into the file, and every
learner that starts from it is charged for it once (phase `pretrain` of its ledger's first record).
"""

import functools
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import safetensors.numpy

from experiments import run_config
from learners.parts import weight_layouts, weights
from learners.parts.baseline import Baseline
from learners.parts.joint import fit_jointly
from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, NevisStreamError, unknown
from nevis_stream.executor import Progress
from nevis_stream.learner import Context
from nevis_stream.run_directory.workspace import EventWorkspace
from nevis_stream.storage import exclusive, write_file
from nevis_stream.storage.identity import refuse_other, text, write_once
from nevis_stream.storage.npz import read_npz
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import LabelledImages, TaskView

META_TRAIN = "meta_train"
_ANOTHER_FILE = "there is another file already. Choose another --out, or delete it."
_ANOTHER_JOB = (
    "another job wrote this file ({difference}). Choose another --out, or repeat that job's flags."
)
_UNFINISHED = (
    "this belongs to another job, which has not ended ({difference}). Choose another --out, repeat"
    " that job's flags to continue it, or delete the folder to abandon it."
)


def views(stream: Stream, tasks: Sequence[str]) -> list[TaskView]:
    """Returns train and dev splits of tasks by their ids; "meta_train" means all of S_Tr.

    Each data set of S_Tr is taken once.

    Raises:
      BadInput: a task that is unknown (valid ones are named) or named twice, or no task.
    """
    by_id = {task.task_id: task for task in stream.tasks}
    if list(tasks) == [META_TRAIN]:
        first = {
            task.dataset_id: task for task in reversed(stream.tasks) if task.meta_split == "train"
        }
        chosen = sorted(first.values(), key=lambda task: task.order)
        if not chosen:
            raise BadInput(
                f"stream {stream.name} has no meta-train tasks; name tasks of it:"
                f" {', '.join(by_id)}."
            )
    else:
        for task_id in tasks:
            if task_id == META_TRAIN:
                raise BadInput(
                    f"{META_TRAIN} means all of S_Tr and must be given alone; here it is one of"
                    f" {', '.join(tasks)}."
                )
            if task_id not in by_id:
                raise BadInput(unknown("task", task_id, [META_TRAIN, *by_id]))
            if list(tasks).count(task_id) > 1:
                raise BadInput(f"task {task_id!r} is named more than once.")
        chosen = [by_id[task_id] for task_id in tasks]
    task_views = []
    for task in chosen:
        parts = {name: stream.splits(task)[name] for name in ("train", "dev")}
        labelled = {name: LabelledImages(part.images, part.labels) for name, part in parts.items()}
        task_views.append(
            TaskView(task.task_id, task.year, task.kind, task.domain, task.num_classes, **labelled)
        )
    return task_views


def pretrain(
    config: ml_collections.ConfigDict,
    stream: Stream,
    tasks: Sequence[str],
    out: Path,
    stand_in: str = "",
    checkpoint_seconds: float = 30.0,
    progress: Progress | None = None,
) -> weights.Facts:
    """Trains a backbone and writes it to `out`, once.

    Started again after a kill, it continues from `out`.progress.

    Args:
      config: resolved; its network, search, train, augmentation and seed are used.
      stream: contains the tasks.
      tasks: their ids, or ("meta_train",).
      out: file of weights.
      stand_in: of what these weights take the place, in words.
      checkpoint_seconds: least time between saved positions.
      progress: shows what is going on.

    Raises:
      BadInput: unknown tasks, settings that would be ignored, another job's file, or every trial
        diverged.
    """
    learner = _learner(config)
    _check_followed(config)
    chosen = views(stream, tasks)
    trained_on = f"{', '.join(task.task_id for task in chosen)} (stream {stream.name})"
    if list(tasks) == [META_TRAIN]:
        trained_on = f"the {len(chosen)} data sets of the meta-train part of {stream.name}"
    values = run_config.to_json(config) | {"stream": stream.name}  # not the path of a csv
    job = {
        "config": values,
        "stand_in": stand_in,
        "stream_digest": stream.digest,
        "tasks": list(tasks),
    }
    folder, record_file = out.with_name(f"{out.name}.progress"), out.with_name(f"{out.name}.json")
    begun, key = folder / "job.json", hashlib.sha256(text(job).encode()).hexdigest()[:12]
    if not begun.exists() and _finished(out, record_file, job):
        shutil.rmtree(folder, ignore_errors=True)  # a kill may have come while that was done
        return weights.read_facts(out)
    with exclusive(
        folder / "lock",
        busy="is pre-training into this file. Wait for it or stop it, or choose another --out.",
    ):
        write_once(begun, text(job), _UNFINISHED)
        workspace = EventWorkspace(folder / key, checkpoint_seconds)
        ctx = Context(
            path=(f"seed {config.seed}", "pretrain"),
            phase="pretrain",
            workspace=workspace,
            progress=progress,
        )
        trial = functools.partial(fit_jointly, tasks=chosen, recipe=learner.recipe)
        results = learner.search.run(ctx.seed, functools.partial(ctx.map, trial))
        sound = [result for result in results if result["info"]["dev_error"] is not None]
        if not sound:
            shutil.rmtree(folder)  # so that another config may write there
            raise BadInput(
                f"all {len(results)} trials diverged: lower config.search.learning_rate."
            )
        best = min(sound, key=lambda result: result["info"]["dev_error"])
        facts = weights.Facts(
            weights.describe(learner.recipe.network),
            trained_on,
            total(ctx.meter.counts()),
            stand_in,
        )
        write_file(out, weights.encode(best["variables"], facts))
        record = {
            "trials": [result["info"] for result in results],
            "flops": ctx.meter.counts(),
            "chosen": best["info"],
        }
        record |= {"job": job, "digest": weights.digest(out)}
        write_file(record_file, json.dumps(record, indent=1, sort_keys=True).encode())
    shutil.rmtree(folder)
    return facts


def import_weights(
    config: ml_collections.ConfigDict,
    file: Path,
    layout: str,
    out: Path,
    trained_on: str,
    flops: int,
    stand_in: str = "",
) -> weights.Facts:
    """Writes weights of another library (safetensors or npz) as a file of weights.

    Args:
      config: resolved; its network says what the file holds.
      file: arrays by the names of the other library.
      layout: one of `weight_layouts.names()`.
      out: file of weights.
      trained_on: what they were trained on, in words.
      flops: what that cost.
      stand_in: of what they take the place, if of anything.

    Raises:
      BadInput: an unreadable file, an unknown layout, or an array that does not fit; the message
        names it.
    """
    network = _learner(config).recipe.network
    arrays = _arrays(file)
    try:
        variables = weight_layouts.convert(arrays, layout, network.backbone())
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None
    facts = weights.Facts(weights.describe(network), trained_on, flops, stand_in)
    content = weights.encode(variables, facts)
    if out.exists() and out.read_bytes() != content:
        raise BadInput(f"{out}: {_ANOTHER_FILE}")
    write_file(out, content)
    return facts


def _finished(out: Path, record_file: Path, job: dict[str, Any]) -> bool:
    """Returns whether `out` is there and what the job makes; another file than that is refused."""
    if not out.exists():
        return False
    try:
        record = json.loads(record_file.read_text())
        there, intact = text(record["job"]), record["digest"] == weights.digest(out)
    except (OSError, ValueError, KeyError, TypeError):
        there, intact = "", False
    if not intact:
        raise BadInput(f"{out}: {_ANOTHER_FILE}")
    refuse_other(out, there, text(job), _ANOTHER_JOB)
    return True


def _check_followed(config: ml_collections.ConfigDict) -> None:
    """Refuses what pre-training would ignore."""
    for is_ignored, message in (
        (
            config.search.pruning != "none",
            "search.pruning: trials of pre-training are not pruned; leave it at none.",
        ),
        (
            config.search.space != "small",
            "search.space: pre-training searches the small space alone.",
        ),
        (
            config.train.frozen,
            "train.frozen: pre-training trains the backbone, so it cannot be frozen.",
        ),
        (config.train.steps == 0, "train.steps is 0: nothing would be trained."),
    ):
        if is_ignored:
            raise BadInput(f"config.{message}")


def _learner(config: ml_collections.ConfigDict) -> Baseline:
    learner = run_config.build(config)
    if not isinstance(learner, Baseline):
        raise BadInput(
            f"learner {config.learner} has no network to pre-train; take --config=indep."
        )
    return learner


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        if file.suffix == ".npz":
            return read_npz(file)
        if file.suffix == ".safetensors":
            with open(file, "rb"):  # which says why it cannot
                pass
            return safetensors.numpy.load_file(file)
    except FileNotFoundError:
        raise BadInput(f"{file}: no such file.") from None
    except NevisStreamError:
        raise
    except Exception as error:  # a damaged file may raise anything
        raise BadInput(
            f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})."
        ) from None
    raise BadInput(
        f"{file}: weights are read from .safetensors or .npz files (torch:"
        " safetensors.torch.save_file)."
    )
