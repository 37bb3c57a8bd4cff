"""`launch.label status` and `report`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.active_testing.labelling.estimates import accounts
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.errors import plural
from nevis_stream.experiments.labelling import report_page
from nevis_stream.launch import entry
from nevis_stream.launch.label_commands.sessions import sample_images
from nevis_stream.launch.terminal import console, estimate_cells

FEWEST_TO_STOP = 100  # labels; who stops sooner has too often seen too few large losses


def status(words: Sequence[str], values: FlagValues) -> None:
    """Prints the estimates; ends with status 1 if an interval is wider than --until."""
    session = Session(Path(words[0]))
    settings = session.settings
    waiting, known = len(session.waiting()), len(session.labels())
    table = Table(settings.loss, "estimate", "95% interval", "width", "labels")
    rows = accounts(session, values.estimator)
    for account in rows:
        estimate = account.estimate
        value, interval = estimate_cells(estimate)
        width = "–" if np.isnan(account.width) else f"{account.width:.4f}"
        table.add_row(account.name, value, interval, width, str(estimate.observed))
    console().print(table)
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
    print(report_page.write(session, values.estimator, sample_images))
