"""The runner: takes a learner through a stream, event by event, and writes a run directory.

Only the runner knows labels of test data, sample ids and time. A train event ends with a checkpoint
that contains the ledger's record; then the record is appended. So after a kill at any instant
either the event is done or its finished trials can be used, and the same call continues the run.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput, LearnerFault
from nevis_stream.executor import Executor, Inline
from nevis_stream.learner import Learner, configure
from nevis_stream.progress import Progress
from nevis_stream.run_directory import environment
from nevis_stream.run_directory.config import config_of, describe
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.scalars import RunScalars
from nevis_stream.runner.events import EventLoop, show_results
from nevis_stream.runner.work import Work, last_kept, open_directory, refuse_changed_code
from nevis_stream.storage import exclusive
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream
from nevis_stream.terminal import TerminalProgress

__all__ = ["last_kept", "run"]


def run(
    learner: Learner | str,
    stream: Stream | str,
    run_dir: str | Path,
    *,
    preset: str | None = None,
    values: Mapping[str, Any] | None = None,
    protocol: str = "meta_test",
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    label: str | None = None,
    keep: str = "chosen",
    checkpoint_seconds: float = 30.0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    devices: int = 1,
    tensorboard: bool = True,
    accept_changed_code: bool = False,
) -> Ledger:
    """Runs a learner over a stream, or continues a run that was interrupted.

    Args:
      learner: has `init`, `train` and `predict`; or the name of one (`learner_names`).
      stream: a stream, or the name or csv of one.
      run_dir: directory of the run; created if missing.
      preset, values: of a learner that is given by its name, as of `make_learner`.
      protocol: "meta_test" (test errors, judged on S_Ts) or "meta_train" (dev_test errors on S_Tr).
      seed: root of every random number; from 0.
      config: JSON values that, with stream, protocol, seed and keep, fully describe the run; its
        "learner" names the learner. None describes the learner's attributes.
      label: the run's name in tables and figures; None: the learner's name.
      keep: which predictors are kept: "chosen", each task's chosen one; "all", those of all trials,
        which then answer the predicted split too; "last_K", the chosen ones of the last K tasks:
        checkpoints of older tasks are deleted, and a learner knows only those K tasks as its past.
      checkpoint_seconds: minimum time between two saved positions within a trial.
      progress: receives the state of the run; None shows it in the terminal, `Silent()` nowhere.
      executor: runs the trials; None runs them one after the other in this process.
      devices: number of devices that share each training batch.
      tensorboard: whether curves are written for TensorBoard during the run.
      accept_changed_code: whether to go on although the user's code (the module of the learner, and
        what it imports of the user's) differs from that with which the run was begun.

    Returns:
      The complete ledger.

    Raises:
      NevisStreamError: of a kind that says what to do: bad input, a locked directory, a full disk,
        a faulty learner.
    """
    last_kept(keep)
    if isinstance(learner, str):
        if config is not None:
            raise BadInput("config: a learner that is given by its name has its own; give values.")
        named = configure(learner, preset, values)
        learner, config = named.learner, named.config
    elif preset is not None or values is not None:
        raise BadInput("preset and values are of a learner that is given by its name.")
    _check_learner(learner)
    settings = describe(learner) if config is None else dict(config)
    if label is not None:
        settings["label"] = label
    _check_values(settings, seed)
    stream = load_stream(stream) if isinstance(stream, str) else stream
    if hasattr(stream, "next"):
        raise BadInput(
            f"stream {stream.name!r}: its class has a method `next`, which a schedule has now"
            " (docs/adding-a-stream.md)."
        )
    stream.check(protocol)
    settings |= {"stream": stream.name, "stream_digest": stream.digest}
    settings |= {"protocol": protocol, "seed": seed, "keep": keep}
    if stream.schedule.rule is not None:
        settings["rule"] = stream.schedule.rule
    if versions := environment.conventions_of(learner):
        settings[environment.CONVENTIONS_KEY] = versions
    recorded = config_of(settings)
    path = Path(run_dir)
    with exclusive(path / "lock"), contextlib.ExitStack() as stack:
        ledger = open_directory(path, recorded, stream)
        module, colon, _ = settings["learner"].partition(":")
        code = environment.digest_code(
            (learner, stream, stream.schedule), [module] if colon else []
        )
        refuse_changed_code(ledger, code, accept_changed_code)
        if progress is None:
            progress = stack.enter_context(TerminalProgress(_title(settings, seed)))
        if ledger.complete:
            show_results(ledger, progress)
            return ledger
        work = Work(
            learner=learner,
            stream=stream,
            path=path,
            config=recorded,
            ledger=ledger,
            scalars=RunScalars(path, tensorboard),
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
            executor=executor or Inline(),
            devices=devices,
            code=code,
        )
        EventLoop(work).run()
        return ledger


def _check_learner(learner: Any) -> None:
    if isinstance(learner, type):
        name = learner.__name__
        raise LearnerFault(f"learner {name} is a class; an instance is expected: {name}(…).")
    missing = [name for name in ("init", "train", "predict") if not hasattr(learner, name)]
    if missing:
        raise LearnerFault(
            f"learner {type(learner).__name__}: it has no {' and no '.join(missing)}; a learner has"
            " init, train and predict (docs/adding-a-learner.md)."
        )


def _check_values(values: Mapping[str, Any], seed: int) -> None:
    if not isinstance(values.get("learner"), str):
        raise BadInput(
            f"config: learner is {values.get('learner')!r}, not a string. Give the learner a name"
            " in"
            ' the config: run(…, config={"learner": "my_learner", …}).'
        )
    if environment.CONVENTIONS_KEY in values:
        raise BadInput(
            f"config: {environment.CONVENTIONS_KEY!r} is written by the run; choose another name."
        )
    for name in ("label", "budget"):
        if not isinstance(values.get(name), str | None):
            raise BadInput(f"config: {name} is {values[name]!r}, not a string.")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise BadInput(f"seed is {seed!r}; valid: whole numbers from 0 to 2**63 - 1.")


def _title(values: Mapping[str, Any], seed: int) -> str:
    words = (values.get("label") or values["learner"], values.get("budget"), f"seed {seed}")
    return " ".join(word for word in words if word)
