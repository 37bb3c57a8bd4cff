"""Ctrl-C ends a command with status 130 and without a traceback, wherever it arrives."""

import gc
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.launch import end_at_once, entry

ROOT = Path(__file__).resolve().parents[2]


def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(1000))  # the interrupt is raised here


def collecting():
    """The interrupt arrives in a callback of the collector, which ignores what it raises."""

    def once(*_):
        gc.callbacks.remove(once)  # what ends the command is not interrupted again
        interrupt()

    gc.callbacks.append(once)
    gc.collect()


class Finalized:
    def __del__(self):
        interrupt()


def finalizing():
    Finalized()


def end_of(work, after, file):
    """Returns the status of a command that does `work`, and in which `after` comes at its end."""
    gc.collect()  # what earlier tests left would warn in the child
    if (child := os.fork()) == 0:
        status = 1
        try:
            signal.signal(signal.SIGINT, end_at_once)
            sys.stderr = open(file, "w")  # noqa: SIM115
            sys.unraisablehook = sys.__unraisablehook__
            try:
                entry.guard(work)
                status = 0
            except SystemExit as error:
                status = error.code
            after()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("arrives", [interrupt, collecting, finalizing])
def test_an_interrupt_is_never_lost(arrives, tmp_path):
    def work():
        arrives()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            time.sleep(0.01)

    assert end_of(work, lambda: None, tmp_path / "stderr") == 130
    said = (tmp_path / "stderr").read_text()
    assert said == "\ninterrupted: start the same command again to continue\n"


def fail_and_be_interrupted():
    class Message(BadInput):
        def __str__(self):
            interrupt()
            return ""

    raise Message


@pytest.mark.parametrize("work", [lambda: None, interrupt, fail_and_be_interrupted])
def test_an_interrupt_while_a_command_ends(work, tmp_path):
    """Also the second of two: a person who waits presses the keys again."""
    assert end_of(work, interrupt, tmp_path / "stderr") == 130
    said = (tmp_path / "stderr").read_text()
    assert said in ("", "\ninterrupted: start the same command again to continue\n")


def test_an_import_is_not_broken_off(tmp_path, monkeypatch):
    """JAX's libraries abort the process if it is."""
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsum(range(1000))\n"
    (tmp_path / "interrupted.py").write_text(f"{kill}open({str(tmp_path / 'done')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def work():
        importlib.import_module("interrupted")
        time.sleep(20)

    assert end_of(work, lambda: None, tmp_path / "stderr") == 130
    assert (tmp_path / "done").exists()


def test_other_errors_of_finalizers_are_reported(capsys):
    class Wrong:
        def __del__(self):
            raise ValueError("of a finalizer")

    before, sys.unraisablehook = sys.unraisablehook, lambda each: print(each.exc_value)
    try:
        entry.guard(lambda: Wrong() and None)
    finally:
        sys.unraisablehook = before
    assert "of a finalizer" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["absl.flags", "nevis_stream.launch.entry"])
def test_an_interrupt_while_modules_are_imported(tmp_path, module):
    process = subprocess.Popen(
        # what it does goes on for seconds if the signal comes late
        [sys.executable, "-X", "importtime", "-m", "launch.run"]
        + ["--config=nearest_class_mean", f"--run_dir={tmp_path}"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # what a shell starts in the background ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    said = ""
    for line in process.stderr:
        if line.split("|")[-1].strip() == module:
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
    assert process.wait(20) == 130
    assert "interrupted" in said and "Traceback" not in said
