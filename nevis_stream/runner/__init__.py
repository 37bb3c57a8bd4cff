"""The runner: takes a learner through a stream, event by event, and writes a run directory.

Only the runner knows labels of test data, sample ids and time. A train event ends with a checkpoint
that contains the ledger's record; then the record is appended. So after a kill at any instant
either the event is done or its finished trials can be used, and the same call continues the run.
"""

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput, DamagedCheckpoint, LearnerFault, RunWarning
from nevis_stream.executor import Executor, Inline
from nevis_stream.learner import Learner, configure
from nevis_stream.progress import Progress
from nevis_stream.run_directory import config as config_file
from nevis_stream.run_directory import environment
from nevis_stream.run_directory.config import RecordedConfig
from nevis_stream.run_directory.environment import Digests, write_readings
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import Header
from nevis_stream.run_directory.scalars import RunScalars
from nevis_stream.runner.events import EventLoop, show_results
from nevis_stream.runner.growth import TASKS, grow
from nevis_stream.runner.training import Work, parse_last_kept
from nevis_stream.seeds import check_seed
from nevis_stream.storage import lock_exclusively, make_directory, remove_leftovers
from nevis_stream.storage.checkpoint import Checkpoint
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.record import refuse_other, write_once
from nevis_stream.storage.tables import parse_csv
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream
from nevis_stream.terminal import TerminalProgress
from nevis_stream.vocabulary import ALL_SEEN

__all__ = ["parse_last_kept", "run"]

_OTHER_RUN = (
    "this directory contains another run ({difference}). Choose another run_dir, or give the config"
    " with which that run was started."
)


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
    """Runs a learner over a stream, or continues a run: one that was interrupted, or a complete one
    whose stream has more tasks at its end now.

    Args:
      learner: has `init`, `train` and `predict`; or the name of one (`learner_names`).
      stream: a stream, or the name or csv of one.
      run_dir: directory of the run; created if missing.
      preset, values: of a learner that is given by its name, as of `make_learner`.
      protocol: "meta_test" (test errors, judged on S_Ts), "meta_train" (dev_test errors on S_Tr),
        or "all_seen" (as "meta_test"; after each task a learner that has `predictor_for` answers
        for the earlier ones again).
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
    parse_last_kept(keep)
    if isinstance(learner, str):
        if config is not None:
            raise BadInput("config: a learner that is given by its name has its own; give values.")
        named = configure(learner, preset, values)
        if named.as_begun and (Path(run_dir) / config_file.FILE_NAME).exists():
            named = named.as_begun(config_file.read_config(Path(run_dir)).values)
        learner, config = named.learner, named.config
    elif preset is not None or values is not None:
        raise BadInput("preset and values are of a learner that is given by its name.")
    _check_learner(learner, protocol)
    settings = config_file.describe(learner) if config is None else dict(config)
    if label is not None:
        settings["label"] = label
    _check_values(settings)
    seed = check_seed(seed)
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
    if versions := environment.list_conventions(learner):
        settings[environment.CONVENTIONS_KEY] = versions
    recorded = config_file.make_config(settings)
    path = Path(run_dir)
    with lock_exclusively(path / "lock"), contextlib.ExitStack() as stack:
        module, colon, _ = settings["learner"].partition(":")
        code = environment.digest_code(
            (learner, stream, stream.schedule), [module] if colon else []
        )
        grow(
            path,
            recorded,
            stream,
            lambda: _refuse_changed_code(Ledger(path), code, accept_changed_code),
        )
        ledger = _open_directory(path, recorded, stream)
        _refuse_changed_code(ledger, code, accept_changed_code)
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


def _check_learner(learner: Any, protocol: str) -> None:
    if isinstance(learner, type):
        name = learner.__name__
        raise LearnerFault(f"learner {name} is a class; an instance is expected: {name}(…).")
    missing = [name for name in ("init", "train", "predict") if not hasattr(learner, name)]
    if missing:
        raise LearnerFault(
            f"learner {type(learner).__name__}: it has no {' and no '.join(missing)}; a learner has"
            " init, train and predict (docs/adding-a-learner.md)."
        )
    if protocol == ALL_SEEN and not hasattr(learner, "predictor_for"):
        raise LearnerFault(
            f"learner {type(learner).__name__}: it has no predictor_for, with which protocol"
            f" {protocol!r} asks one model again for each earlier task (docs/forgetting.md). A"
            " learner that keeps a predictor for each task forgets nothing."
        )


def _check_values(values: Mapping[str, Any]) -> None:
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


def _title(values: Mapping[str, Any], seed: int) -> str:
    words = (values.get("label") or values["learner"], values.get("budget"), f"seed {seed}")
    return " ".join(word for word in words if word)


def _open_directory(path: Path, config: RecordedConfig, stream: Stream) -> Ledger:
    """Prepares a directory for a run, or checks that it contains this run; returns its ledger.

    Raises:
      BadInput: it contains another run, one in the format of an earlier version, or an unfinished
        one that was begun under other conventions.
    """
    for directory in (path, path / "checkpoints", path / "outcomes", path / "thumbnails"):
        make_directory(directory)
        remove_leftovers(directory)
    file = path / config_file.FILE_NAME
    versions = config.values.get(environment.CONVENTIONS_KEY, {})
    ledger = Ledger(path)
    header = ledger.header if ledger.records else _header_of_init(path)
    begun = _versions(path, versions if header is None else environment.read_conventions(path))
    values = {
        name: value for name, value in config.values.items() if name != environment.CONVENTIONS_KEY
    }
    if begun:
        values[environment.CONVENTIONS_KEY] = begun
    expected = config_file.make_config(values)
    if file.exists():
        found = read_bytes(file).decode(errors="replace")
        refuse_other(file, found, expected.to_text(), _OTHER_RUN)
    if header is not None:
        _refuse_other_header(ledger.path, header, expected)
    write_once(file, expected.to_text(), _OTHER_RUN)
    tasks = path / TASKS
    # earlier versions wrote texts without quotes for spreadsheets
    if not tasks.exists() or parse_csv(read_bytes(tasks).decode()) != parse_csv(stream.csv):
        write_once(tasks, stream.csv, _OTHER_RUN)
    write_readings(path, stream.readings)
    if not ledger.complete:
        environment.refuse_other_conventions(path, begun, versions)
    return ledger


def _header_of_init(path: Path) -> Header | None:
    """Returns the header in the checkpoint of `init`, which a kill may have left alone."""
    try:
        return Header.from_json(Checkpoint(path / "checkpoints" / "init").record)
    except (DamagedCheckpoint, ValueError):
        return None


def _refuse_other_header(file: Path, header: Header, config: RecordedConfig) -> None:
    """Refuses a run that was begun with another config, also if its config.json is missing."""
    if header.config_hash == config.config_hash:
        return
    now = {name: config.values.get(name) for name in ("budget", "stream", "protocol", "seed")}
    now = {"learner": config.values.get("label") or config.values["learner"]} | now
    recorded = {name: getattr(header, name) for name in now}
    differing = [
        f"{n}: there {recorded[n]!r}, now {now[n]!r}" for n in now if recorded[n] != now[n]
    ]
    difference = differing or [f"config hash: there {header.config_hash}, now {config.config_hash}"]
    raise BadInput(f"{file}: {_OTHER_RUN.format(difference=difference[0])}")


def _versions(path: Path, without_config: Mapping[str, int]) -> Mapping[str, int]:
    """Returns the versions of conventions with which a run was begun; `without_config` if its
    config.json is missing.
    """
    if not (path / config_file.FILE_NAME).exists():
        return without_config
    recorded = config_file.read_config(path)
    if recorded.schema < config_file.SCHEMA:
        raise BadInput(
            f"{path}: this run was started by an earlier version of nevis_stream. It can be read"
            " (report, compare, watch) but not continued. Choose another run_dir."
        )
    versions = recorded.values.get(environment.CONVENTIONS_KEY)
    return versions if isinstance(versions, dict) else {}


def _refuse_changed_code(ledger: Ledger, code: Digests, accepted: bool) -> None:
    """Refuses a run whose results so far came from other code of the user's, and says in one line
    if the project or a package changed.

    Raises:
      BadInput: the user's code changed, and this was not accepted.
    """
    if not ledger.records and _header_of_init(ledger.run_dir) is None:
        return
    changed = ", ".join(environment.compare_code(environment.read_last_code(ledger.run_dir), code))
    if changed and not accepted:
        done, reason, wish = (
            ("was done", "this is not the learner that it ran", "show its results")
            if ledger.complete
            else ("was begun", "its results would come from two learners under one name", "go on")
        )
        raise BadInput(
            f"{ledger.run_dir}: the code of {changed} has changed since this run {done}, so"
            f" {reason}. Choose another run_dir; or, if the change does not matter, {wish} with"
            " --accept_changed_code (in Python: accept_changed_code=True)."
        )
    versions = [] if ledger.complete else environment.find_changed_versions(ledger.run_dir)
    if versions:
        warnings.warn(
            f"{ledger.run_dir}: this run is continued with other versions: {'; '.join(versions)}.",
            RunWarning,
            stacklevel=3,
        )
