"""No command lets control characters of a file's names reach the terminal."""

import io
import json
import subprocess
import sys

import pytest
from rich.table import Table

from nevis_stream.terminal import Console, PrintableStream, strip_control_characters
from tests.report.synthetic import SyntheticRun

EVIL = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202eevil"
RUN = SyntheticRun(learner=EVIL, stream=EVIL, task_name=EVIL + "{}", thumbnails=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs full of escape sequences, a csv of tasks, and a table of outcomes."""
    folder = tmp_path_factory.mktemp("evil")
    for learner in ("a", "b"):
        RUN.but(learner=EVIL + learner).write(folder / learner)
    (folder / f"broken{EVIL}").mkdir()
    name = EVIL.replace("\r", "")  # which would end the line
    (folder / "tasks.csv").write_text(
        f"order,year,task_id,dataset_id,meta_split\n1,1999,{name},{name},test\n"
    )
    (folder / "outcomes.csv").write_text(f"model,{name}\n{name},nonsense\n")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "a", "b"],
        ["watch", "a", "--once"],
        ["report", f"broken{EVIL}"],
        ["data", "list", "--stream=tasks.csv"],
        ["evaluate", "import", "outcomes.csv", "--cache=cache"],
    ],
    ids=lambda words: words[0],
)
def test_commands_print_no_control_characters(folder, command):
    done = subprocess.run(
        [sys.executable, "-m", f"nevis_stream.launch.{command[0]}", *command[1:]],
        cwd=folder,
        capture_output=True,
    )
    printed = (done.stdout + done.stderr).decode()
    assert "Traceback" not in printed
    assert "evil" in printed
    assert printed == strip_control_characters(printed)


def test_a_console_keeps_its_own_styles_and_strips_the_text_s():
    buffer = io.StringIO()
    console = Console(
        PrintableStream(buffer), force_terminal=True, width=60, color_system="standard"
    )
    table = Table(EVIL)
    table.add_row(EVIL, style="red")
    console.print(table)
    console.print(json.dumps(EVIL), EVIL, style="bold")
    assert "\x1b[31m" in buffer.getvalue()
    assert "\x1b[1m" in buffer.getvalue()
    for code in ("\x1b[2J", "\x1b]0", "\x07", "\r", "\x9b", "\u202e"):
        assert code not in buffer.getvalue()
