"""`launch.data prepare` and `import`.

Several data sets are prepared at the same time; one that fails does not stop the others.
"""

import multiprocessing
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from rich.progress import Progress

from nevis_stream import catalogue
from nevis_stream.datasets import prepared, sources
from nevis_stream.datasets.reading import Choices, Reading
from nevis_stream.errors import BadInput, NevisStreamError, unknown
from nevis_stream.launch.data_commands.show import find_dataset
from nevis_stream.launch.entry import INCOMPLETE, as_typed
from nevis_stream.progress import Silent
from nevis_stream.storage.reading import explain_absence
from nevis_stream.storage.tables import check_name
from nevis_stream.streams.named_streams import list_stream_rows
from nevis_stream.terminal import TerminalProgress, make_progress_bars


class _Messages(Silent):
    """Sends the stages of a data set to the process that shows them."""

    def __init__(self, source: str, messages: Any):
        self._source, self._messages = source, messages

    def stage(self, name: str, done: int = 0, total: int | None = None) -> None:
        """As `Progress.stage`."""
        self._messages.put((self._source, name, done, total))


def _prepare_one(source: str, options: dict[str, Any], messages: Any) -> str:
    """Prepares one data set, in its own process; returns an error message, or "" on success."""
    from nevis_stream.datasets.preparation import prepare as preparation

    scheme, _, dataset_id = source.partition(":")
    progress = _Messages(source, messages)

    warnings.simplefilter("ignore")
    try:
        if scheme == "local":
            if options["force"] or not _is_current(dataset_id):
                known = catalogue.read_shared_files().get(dataset_id)
                path = catalogue.find_shared_directory() / known["file"] if known else None
                if path is None or not path.exists():
                    return sources.find_state(source).advice
                choices = Choices.of_row(known)
                preparation.import_file(
                    path, dataset_id, choices=choices, form=options["form"], progress=progress
                )
        else:
            preparation.prepare(dataset_id, progress=progress, **options)
    except NevisStreamError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or dataset_id}: {error.strerror or error}"
    except Exception as error:  # one data set must not stop the others
        return f"{dataset_id}: unexpected {type(error).__name__}: {error}. Please report this."
    return ""


def _is_current(dataset_id: str) -> bool:
    """Whether a data set is imported, as this version reads its file."""
    return prepared.is_ready(dataset_id, "local") and not prepared.suggest_preparing(
        dataset_id, "local"
    )


def prepare(
    stream: str | None, tasks: Sequence[str], options: dict[str, Any], jobs: int | None
) -> None:
    """Prepares the data sets of a stream and those that `tasks` names, `jobs` at a time; `options`
    are arguments of `preparation.prepare`.
    """
    wanted = _find_wanted(stream, tasks)
    if not wanted:
        print(f"Nothing to prepare: the tasks of {stream} are read from where they are.")
        return
    jobs = min(jobs or os.cpu_count() or 1, len(wanted))
    outcome: dict[str, str] = {}
    bars = make_progress_bars()
    # the new processes must not import files of the working directory
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, bars, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        messages = manager.Queue()
        all_bar = bars.add_task("data sets", total=len(wanted))
        bar_of: dict[str, Any] = {}
        pending = {
            pool.submit(_prepare_one, source, options, messages): source for source in wanted
        }
        for future in _yield_finished(pending, messages, bars, bar_of):
            source = pending[future]
            try:
                outcome[source] = future.result()
            except BrokenProcessPool:
                outcome[source] = (
                    "its process was killed, perhaps because memory ran out; start the same"
                    " command again with --jobs=1"
                )
            if source in bar_of:
                bars.remove_task(bar_of.pop(source))
            bars.advance(all_bar)
            name = source.partition(":")[2]
            line = outcome[source].removeprefix(f"{name}: ") or "ready"
            lines = [f"{name}: {line}", *_readings(source, outcome[source])]
            bars.console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    _print_outcome(wanted, outcome)


def _readings(source: str, problem: str) -> list[str]:
    """Returns what the files of a prepared data set were understood as."""
    scheme, _, name = source.partition(":")
    origin = "local" if scheme == "local" else "published"
    known = {} if problem else prepared.read_about(name, origin).get("reading")
    return Reading.from_json(known).lines(name) if known else []


def _yield_finished(pending: dict, messages: Any, bars: Progress, bar_of: dict[str, Any]):
    """Yields futures as they finish, and shows the progress that their processes report."""
    left = set(pending)
    while left:
        try:
            for future in as_completed(left, timeout=0.2):
                left.discard(future)
                yield future
                break
        except TimeoutError:
            pass
        while not messages.empty():
            source, stage, done, total = messages.get()
            if source not in bar_of:
                bar_of[source] = bars.add_task(source.partition(":")[2], total=None)
            bars.update(
                bar_of[source],
                description=f"{source.partition(':')[2]}: {stage}",
                completed=done,
                total=total,
            )


def _find_wanted(stream: str | None, tasks: Sequence[str]) -> list[str]:
    if not stream and not tasks:
        raise BadInput("choose what to prepare, for example --stream=short or --task=mnist,usps.")
    wanted = [row["source"] for row in list_stream_rows(stream)[1]] if stream else []
    for task in map(find_dataset, tasks):
        valid = {*catalogue.read_file_layouts(), *catalogue.read_shared_files()}
        if task not in valid:
            raise BadInput(unknown("data set", task, valid))
        wanted.append(
            f"nevis22:{task}" if task in catalogue.read_file_layouts() else f"local:{task}"
        )
    whole = (re.sub(r"^classes:([^.]+).*", r"nevis22:\1", source) for source in wanted)
    return [source for source in dict.fromkeys(whole) if source.startswith(("nevis22:", "local:"))]


def _print_outcome(wanted: Sequence[str], outcome: dict[str, str]) -> None:
    failed = {source: message for source, message in outcome.items() if message}
    print(
        f"{len(wanted) - len(failed)} of {len(wanted)} data sets are ready in"
        f" {catalogue.find_data_root()}"
    )
    ready = [source.partition(":")[2] for source in wanted if source not in failed]
    if ready:
        print(f"Ready: {', '.join(ready)}")
    if failed:
        print("Not ready, and what to do:")
        for source, message in failed.items():
            dataset_id = source.partition(":")[2]
            print(as_typed(f"  {dataset_id}: {message.removeprefix(f'{dataset_id}: ')}"))
        sys.exit(INCOMPLETE)


def import_file(
    path: Path,
    task: str,
    choices: Choices,
    year: int | None,
    domain: str | None,
    form: str,
    data_dir: str | None = None,
) -> None:
    """Imports a file as a task of the catalogue or as a new one."""
    from nevis_stream.datasets.preparation import prepare as preparation
    from nevis_stream.datasets.preparation.write import check_form

    if not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path}: {explain_absence(path)}.")
    task = find_dataset(task)
    new = task not in catalogue.read_datasets()
    check_name(task, "--task")
    if new and year is None:
        near = unknown("task", task, catalogue.read_nevis22_datasets()).partition(" Valid")[0]
        raise BadInput(
            f"{near} If the task is new, give its year, for example --year=2024, and its domain,"
            " for example --domain=object."
        )
    check_form(form)
    before = ""
    if prepared.is_ready(task, "local"):
        try:
            before = _counts(prepared.read_about(task, "local")["splits"])
        except BadInput:
            before = "damaged"
    with TerminalProgress(task) as progress:
        folder = preparation.import_file(
            path, task, choices=choices, year=year, domain=domain, form=form, progress=progress
        )
    if before:
        print(f"{task}: replaces the data set of that name that was imported before ({before})")
    about = prepared.read_about(task, "local")
    for line in Reading.from_json(about["reading"]).lines(task):
        print(line)
    print(
        f"samples in the file: {_counts(about['found'])}; in the splits, without duplicates:"
        f" {_counts(about['splits'])}"
    )
    _print_duplicates(about)
    print(f"ready: {folder}")
    flag = f" --data_dir={shlex.quote(data_dir)}" if data_dir else ""
    print(as_typed(f"next: python -m launch.data show {shlex.quote(task)}{flag}"))


def _counts(sizes: dict[str, int]) -> str:
    """Returns the sizes of parts or splits as text."""
    return ", ".join(f"{name} {count:,}" for name, count in sizes.items())


def _print_duplicates(about: dict[str, Any]) -> None:
    """Prints how many samples were removed or left out, and how many look alike."""
    removed, near = about["exact_duplicates_removed"], about["near_duplicates_of_train"]
    print(
        f"exact duplicates removed: {removed['within_parts'] + removed['across_parts']},"
        f" {removed['within_parts']} within a part and {removed['across_parts']} across parts"
        f" ({removed['other_label']} of them had different labels); images that look like one"
        " in the train split (same perceptual hash): "
        + ", ".join(f"{count} in {split}" for split, count in near.items())
    )
    if about["unreadable"]:
        print(f"left out because they cannot be read: {', '.join(about['unreadable'])}")
