"""`launch.label start`, `next`, `record`, `status` and `report`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.active_testing.labelling.estimates import estimate_models
from nevis_stream.active_testing.labelling.files import UNKNOWN, PoolPart, SessionSettings
from nevis_stream.active_testing.labelling.pools import SUFFIXES, load_pool, make_absolute
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.datasets.images import JoinedImages
from nevis_stream.errors import BadInput, plural
from nevis_stream.launch import entry
from nevis_stream.launch.command_line import format_estimate, make_console
from nevis_stream.launch.label_commands import forms
from nevis_stream.launch.label_commands.surrogate_data import (
    Subject,
    check_flags,
    check_order,
    load_subject,
)
from nevis_stream.queries.session_log import SETTINGS
from nevis_stream.storage.tables import check_marker, normalise_name


def begin(_: Sequence[str], values: FlagValues) -> None:
    """Begins the session --out, or adds the samples of --pool to it."""
    out = Path(values.out)
    if values["continue"].value:
        _grow(out, values)
        return
    check_flags(values, [values.rule], SETTINGS)
    subject = load_subject(values, values.model, values.surrogate, values.seed)
    count = subject.predictions.shape[2]
    samples, classes = _samples(values.pool, subject), _class_names(values.classes, subject, count)
    for name in classes:
        check_marker(name, "--classes: a class", [UNKNOWN])
    settings = SessionSettings(
        samples.pool,
        [model.name for model in subject.models],
        classes,
        values.loss,
        values.rule,
        subject.surrogate,
        values.uniform,
        values.seed,
        samples.digest,
    )
    session = Session.start(out, settings, samples)
    print(
        f"session {session.settings.name}: {plural(len(session.ids), 'sample')},"
        f" {count} classes, {plural(len(settings.models), 'model')}, loss {settings.loss},"
        f" rule {settings.rule}, {settings.uniform:.0%} of draws uniform, surrogate"
        f" {settings.surrogate}"
    )
    print(f"next: {entry.as_typed('python -m launch.label next')} {quote(str(out))}")


def _samples(pool: str, subject: Subject) -> PoolPart:
    """Returns what a session keeps of the samples."""
    ids, hashes = subject.pool.ids, subject.pool.images.pixel_hashes()
    return PoolPart(make_absolute(pool), ids, subject.predictions, subject.data, hashes)


def _class_names(given: Sequence[str], subject, count: int) -> list[str]:
    if given := [normalise_name(name) for name in given]:
        if twice := [name for name in given if given.count(name) > 1]:
            raise BadInput(f"--classes: {twice[0]!r} is given twice.")
        if not all(name.strip() for name in given):
            raise BadInput(f"--classes={','.join(given)}: a name is empty.")
        if len(given) != count:
            raise BadInput(f"--classes: {len(given)} names; the model has {count} classes.")
        known = list(subject.models[0].classes)
        if given != known and sorted(given) == sorted(known):
            raise BadInput(
                f"--classes={','.join(given)}: the model has these classes in another order:"
                f" {','.join(known)}. Leave the flag out."
            )
        return list(given)
    if names := subject.models[0].classes:
        return list(names)
    if len(names := subject.pool.classes) == count:
        check_order(names, "with --classes")
        return list(names)
    return [str(number) for number in range(count)]


def _grow(out: Path, values: FlagValues) -> None:
    session = Session(out)
    fixed = session.settings
    for name in ("loss", "rule", "surrogate", "uniform", "seed", "classes"):
        given, used = values[name].value, getattr(fixed, name)
        if values[name].present and given != used:
            raise BadInput(
                f"--{name}={_flag_text(given)}: the session was begun with {_flag_text(used)},"
                " and --continue cannot change that. Leave the flag out, or begin another session."
            )
    models = session.models
    if values.model:
        if len(values.model) != len(models):
            raise BadInput(
                f"--model: given {plural(len(values.model), 'time')}; the session compares"
                f" {plural(len(models), 'model')}: {', '.join(session.model_names)}."
            )
        for key in (os.path.realpath, os.path.basename):  # the session may have been copied
            given, there = ([*map(key, each)] for each in (values.model, models))
            if given != there and sorted(given) == sorted(there):
                raise BadInput(
                    "--model: give the models in the order of the session:"
                    f" {', '.join(session.model_names)}."
                )
        models = values.model  # the same models, for example files of their new probabilities
    elif files := [name for name in session.model_names if name.endswith(SUFFIXES)]:
        raise BadInput(
            f"--continue needs the probabilities of {files[0]} on the new samples: give --model for"
            f" each of {', '.join(session.model_names)}, in this order."
        )
    subject = load_subject(values, models, fixed.surrogate, fixed.seed, fixed.classes)
    before, place = len(session.ids), len(session.pool_parts)
    session.grow(_samples(values.pool, subject))
    print(
        f"session {fixed.name}: {plural(len(session.ids) - before, 'sample')} added,"
        f" {len(session.ids):,} now"
    )
    if values.model and len(session.ids) > before:
        for name, model in zip(session.model_names, values.model, strict=True):
            print(f"  {model} was taken for {name}")
        print(f"  if that is wrong, delete {out / f'generation-{place}'} before the next draw")


def _flag_text(value) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def choose(words: Sequence[str], values: FlagValues) -> None:
    """Chooses samples and writes what a person needs to label them."""
    entry.use_compilation_cache()
    session = Session(Path(words[0]))
    number, rows = session.next(values.count)
    folder = forms.write_round(session, number, rows, sample_images(session, rows))
    print(f"{plural(len(rows), 'sample')} to label ({session.counts()}):")
    print(f"  in a browser: {folder / forms.PAGE}")
    print(f"  in a spreadsheet: {folder / forms.CSV}, with {folder / forms.CONTACTS}")
    print(
        f"then: {entry.as_typed('python -m launch.label record')} FILE --session={quote(words[0])}"
    )


def sample_images(session: Session, rows: Sequence[int]) -> JoinedImages:
    """Returns the images of some samples, read from where they are."""
    parts, order = [], []
    for pool_part in session.pool_parts:
        inside = np.array(rows)[pool_part.contains(np.array(rows))].tolist()
        if not inside:
            continue
        try:
            pool = load_pool(pool_part.pool, {session.ids[row] for row in inside})
        except BadInput as error:
            raise BadInput(
                f"{session.directory}: its pool cannot be read. {error} The session knows it by its"
                " path from the session's directory: move both together."
            ) from None
        positions = {sample: place for place, sample in enumerate(pool.ids)}
        missing = [row for row in inside if session.ids[row] not in positions]
        if missing:
            raise BadInput(
                f"{pool_part.pool}: sample {session.ids[missing[0]]!r} is no longer there."
            )
        images = pool.images.take(np.array([positions[session.ids[row]] for row in inside]))
        if pool_part.hashes is not None:
            kept = pool_part.hashes[np.array(inside) - pool_part.first]
            for row in np.array(inside)[images.pixel_hashes() != kept][:1]:
                raise BadInput(
                    f"{pool_part.pool}: sample {session.ids[row]!r} is another image than when the"
                    " session was begun, so the models' probabilities are not about it. Put the"
                    " old images back, or begin another session with the new ones."
                )
        parts.append(images)
        order += inside
    joined = JoinedImages(parts)
    return joined.take(np.array([order.index(row) for row in rows]))


def record(words: Sequence[str], values: FlagValues) -> None:
    """Takes the labels of csv files."""
    session = Session(Path(values.session))
    if not (session.directory / SETTINGS).exists():
        raise BadInput(f"{session.directory}: there is no session here.")
    for word in words:
        labels = forms.read_labels(session, Path(word))
        if labels.unnamed:
            print(
                f"note: {word} has no column 'session', so only its sample names tell that it is of"
                f" session {session.settings.name}"
            )
        new = session.record(labels.classes, word, values.correct, labels.lines)
        same = len(labels.classes) - new
        known = f", {same} as before" if same else ""
        print(f"{word}: {plural(new, 'label')} recorded{known}")
    waiting = len(session.waiting())
    total = session.counts()
    print(f"{total}; drawn samples without a label: {waiting}" if waiting else total)


FEWEST_TO_STOP = 100  # labels; who stops sooner has too often seen too few large losses


def print_status(words: Sequence[str], values: FlagValues) -> None:
    """Prints the estimates; ends with status 1 if an interval is wider than --until."""
    session = Session(Path(words[0]))
    settings = session.settings
    waiting, known = len(session.waiting()), len(session.labels())
    table = Table(settings.loss, "estimate", "95% interval", "width", "labels")
    rows = estimate_models(session, values.estimator)
    for model in rows:
        estimate = model.estimate
        value, interval = format_estimate(estimate)
        width = "–" if np.isnan(model.width) else f"{model.width:.4f}"
        table.add_row(model.name, value, interval, width, str(estimate.observed))
    make_console().print(table)
    print(f"session {settings.name}: {session.counts()}")
    used = rows[0].estimate.observed
    recorded = used + rows[0].estimate.failed
    if waiting:
        later = plural(known - recorded, "label")
        more = f"; {later} drawn after the first of them cannot be used yet"
        print(f"drawn samples without a label: {waiting}{more if known > recorded else ''}")
    if values.until is None:
        return
    fewest = min(FEWEST_TO_STOP, len(session.ids))
    if used < fewest:
        print(f"not yet: labelling may stop from {fewest} labels on; there are {used}")
        sys.exit(entry.INCOMPLETE)
    widest = max(rows, key=lambda row: np.nan_to_num(row.width, nan=np.inf))
    if widest.width <= values.until:
        print(f"every interval is at most {values.until:g} wide: labelling may stop")
        return
    width = "has none yet" if np.isnan(widest.width) else f"is {widest.width:.4f} wide"
    print(f"not yet {values.until:g}: the interval of {widest.name} {width}")
    sys.exit(entry.INCOMPLETE)


def report(words: Sequence[str], values: FlagValues) -> None:
    """Writes the page of a session."""
    entry.use_compilation_cache()
    session = Session(Path(words[0]))
    # here: Matplotlib takes a second that other commands do not need
    from nevis_stream.launch.label_commands import report_page

    print(report_page.write(session, values.estimator, sample_images))
