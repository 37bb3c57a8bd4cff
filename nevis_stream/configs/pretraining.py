"""Pre-training: makes a file of weights from tasks of a stream, or from another library's weights.

Its cost, including all trials and evaluations, is recorded in the file and charged once to every
run that starts from it (phase `pretrain` of the ledger's first record).
"""

import contextlib
import functools
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from nevis_stream.configs import run_config
from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, NevisStreamError, unknown
from nevis_stream.learner import Context
from nevis_stream.learners.parts import weights
from nevis_stream.learners.parts.baseline import Baseline
from nevis_stream.learners.parts.multi_task_pretraining import fit_jointly
from nevis_stream.progress import Progress
from nevis_stream.storage import lock_exclusively, write_file
from nevis_stream.storage.checkpoint import EventWorkspace
from nevis_stream.storage.reading import open_file, read_bytes, read_json, read_npz
from nevis_stream.storage.record import as_lines, refuse_other, write_once
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import LabelledImages, TaskView

META_TRAIN = "meta_train"
_ANOTHER_FILE = (
    "this file exists already, and was not written by this command. Choose another --out, or delete"
    " it."
)
_ANOTHER_JOB = "a command with other flags wrote this file ({difference}). Choose another --out."
_UNFINISHED = (
    "an interrupted command with other flags left this folder ({difference}). Repeat its flags to"
    " continue it, delete the folder to abandon it, or choose another --out."
)


def load_views(stream: Stream, tasks: Sequence[str]) -> list[TaskView]:
    """Returns the train and dev splits of tasks.

    Args:
      stream: contains the tasks.
      tasks: their ids, or ("meta_train",) for all meta-train tasks, each data set once.

    Raises:
      BadInput: a task is unknown or named twice, or there is no task.
    """
    by_id = {task.task_id: task for task in stream.tasks}
    if list(tasks) == [META_TRAIN]:
        first = {
            task.dataset_id: task for task in reversed(stream.tasks) if task.meta_split == "train"
        }
        chosen = sorted(first.values(), key=lambda task: task.order)
        if not chosen:
            raise BadInput(
                f"stream {stream.name} has no meta-train tasks; choose some of its tasks:"
                f" {', '.join(by_id)}."
            )
    else:
        for task_id in tasks:
            if task_id == META_TRAIN:
                raise BadInput(
                    f"--tasks={','.join(tasks)}: {META_TRAIN} means all meta-train tasks and cannot"
                    " be combined with other tasks."
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
    config: run_config.RunConfig,
    stream: Stream,
    tasks: Sequence[str],
    out: Path,
    stand_in: str = "",
    checkpoint_seconds: float = 30.0,
    progress: Progress | None = None,
) -> weights.Facts:
    """Trains a backbone and writes it to `out`, unless it is there already.

    After a kill, the same call continues from the folder `out`.progress.

    Args:
      config: a resolved config, of which network, search, train, augmentation and seed are used.
      stream: contains the tasks.
      tasks: their ids, or ("meta_train",).
      out: file of weights.
      stand_in: the data set that these weights replace, if any.
      checkpoint_seconds: shortest time between two saved positions, in seconds.
      progress: shows the progress.

    Raises:
      BadInput: unknown tasks, settings that would be ignored, a file of another command, or every
        trial diverged.
    """
    folder, record_file = out.with_name(f"{out.name}.progress"), out.with_name(f"{out.name}.json")
    begun = folder / "job.json"
    config = config.as_begun(_read_begun(begun, record_file))
    learner = _learner(config)
    _check_followed(config)
    chosen = load_views(stream, tasks)
    trained_on = f"{', '.join(task.task_id for task in chosen)} (stream {stream.name})"
    if list(tasks) == [META_TRAIN]:
        trained_on = f"the {len(chosen)} data sets of the meta-train part of {stream.name}"
    values = run_config.to_json(config) | {"stream": stream.name}  # instead of the path of a csv
    job = {
        "config": values,
        "stand_in": stand_in,
        "stream_digest": stream.digest,
        "tasks": list(tasks),
    }
    key = hashlib.sha256(as_lines(job).encode()).hexdigest()[:12]
    if not begun.exists() and _finished(out, record_file, job):
        shutil.rmtree(folder, ignore_errors=True)  # a kill may have left it
        return weights.read_facts(out)
    with lock_exclusively(
        folder / "lock",
        busy="is writing this file. Wait for it, stop it, or choose another --out.",
    ):
        write_once(begun, as_lines(job), _UNFINISHED)
        workspace = EventWorkspace(folder / key, checkpoint_seconds)
        ctx = Context(
            path=(f"seed {config.seed}", "pretrain"),
            phase="pretrain",
            workspace=workspace,
            progress=progress,
        )
        trial = functools.partial(fit_jointly, tasks=chosen, recipe=learner.recipe)
        results = learner.search.run(ctx.seed, functools.partial(ctx.map, trial))
        finite = [result for result in results if result["info"]["dev_error"] is not None]
        if not finite:
            shutil.rmtree(folder)  # so that another config can be tried
            raise BadInput(
                f"all {len(results)} trials diverged: lower config.search.learning_rate."
            )
        best = min(finite, key=lambda result: result["info"]["dev_error"])
        facts = weights.Facts(
            weights.describe_network(learner.recipe.network),
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
    config: run_config.RunConfig,
    file: Path,
    layout: str,
    out: Path,
    trained_on: str,
    flops: int,
    stand_in: str = "",
) -> weights.Facts:
    """Converts weights of another library (safetensors or npz) to a file of weights.

    Args:
      config: a resolved config, whose network is that of the weights.
      file: arrays with the names of the other library.
      layout: as of `weights.convert`.
      out: file of weights.
      trained_on: description of the training data.
      flops: FLOPs of the training.
      stand_in: the data set that these weights replace, if any.

    Raises:
      BadInput: an unreadable file, an unknown layout, or an array that does not fit; the message
        names it.
    """
    network = _learner(config).recipe.network
    arrays = _arrays(file)
    try:
        variables = weights.convert(arrays, layout, network.backbone())
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None
    facts = weights.Facts(weights.describe_network(network), trained_on, flops, stand_in)
    content = weights.encode(variables, facts)
    if out.exists() and read_bytes(out) != content:
        raise BadInput(f"{out}: {_ANOTHER_FILE}")
    write_file(out, content)
    return facts


def _read_begun(begun: Path, record_file: Path) -> dict[str, Any]:
    """Returns the config of the job that was begun, or is finished; empty if there is none that can
    be read.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return dict(
            (read_json(begun) if begun.exists() else read_json(record_file)["job"])["config"]
        )
    return {}


def _finished(out: Path, record_file: Path, job: dict[str, Any]) -> bool:
    """Returns whether this job has written `out`; raises BadInput if another command has."""
    if not out.exists():
        return False
    try:
        record = read_json(record_file)
        recorded_job, intact = as_lines(record["job"]), record["digest"] == weights.digest(out)
    except (OSError, ValueError, KeyError, TypeError):
        recorded_job, intact = "", False
    if not intact:
        raise BadInput(f"{out}: {_ANOTHER_FILE}")
    refuse_other(out, recorded_job, as_lines(job), _ANOTHER_JOB)
    return True


def _check_followed(config: run_config.RunConfig) -> None:
    """Refuses settings that pre-training would ignore."""
    search, train = config.own.search, config.own.train
    if search.pruning != "none":
        raise BadInput(
            "config.search.pruning: pre-training does not prune trials; it must be none."
        )
    if search.space != "small":
        raise BadInput("config.search.space: pre-training searches only the small space.")
    if train.frozen:
        raise BadInput("config.train.frozen: pre-training trains the backbone.")
    if train.steps == 0:
        raise BadInput("config.train.steps is 0, so nothing would be trained.")


def _learner(config: run_config.RunConfig) -> Baseline:
    learner = config.build()
    if not isinstance(learner, Baseline):
        raise BadInput(f"learner {config.learner} has no network to pre-train; use --config=indep.")
    return learner


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        if file.suffix == ".npz":
            return read_npz(file)
        if file.suffix == ".safetensors":
            open_file(file).close()  # which says why it cannot
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
