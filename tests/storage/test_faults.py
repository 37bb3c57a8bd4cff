"""Errors of the system end a command with one line that names the file or directory."""

import errno
import fcntl
import io
import os
import sqlite3
import subprocess
import sys

import pytest

from nevis_stream.errors import BadInput, StorageFull
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.index import Index
from nevis_stream.launch import entry
from nevis_stream.storage import append_line, lock_exclusively, write_file
from nevis_stream.storage.reading import clear_faults, describe_fault
from nevis_stream.terminal import strip_control_characters


class LibraryError(Exception):
    """As a library in Rust raises it."""


@pytest.fixture
def failing(monkeypatch):
    """Makes a call of the operating system fail: failing(module, name, number)."""

    def install(module, name, number):
        def fail(*_, **__):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(module, name, fail)

    return install


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
@pytest.mark.parametrize("write", [lambda p: write_file(p, b"x"), lambda p: append_line(p, "x")])
def test_an_error_while_syncing_names_the_file(number, write, tmp_path, failing, capsys):
    failing(os, "fsync", number)
    with pytest.raises(SystemExit) as ended:
        entry.guard(lambda: write(tmp_path / "file"))
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'file'}: {os.strerror(number)}\n"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_drive_without_locks_is_refused_by_its_directory(number, tmp_path, failing):
    failing(fcntl, "flock", number)
    with pytest.raises(BadInput, match=rf"^{tmp_path}: its drive has no file locks"):
        append_line(tmp_path / "log", "x")
    with (
        pytest.raises(BadInput, match=rf"^{tmp_path}: its drive has no file locks"),
        lock_exclusively(tmp_path / "lock"),
    ):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_cache_on_a_drive_without_locks_is_refused_at_once(number, tmp_path, failing):
    EvaluationCache(tmp_path / "c", create=True).append("m", ["a"], [1])
    failing(fcntl, "lockf", number)
    with pytest.raises(BadInput, match=rf"^{tmp_path}/c: its drive has no file locks"):
        EvaluationCache(tmp_path / "c")


def test_an_error_in_a_locked_block_names_the_directory(tmp_path):
    with (
        pytest.raises(OSError, match="Input/output") as raised,
        lock_exclusively(tmp_path / "lock"),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert raised.value.filename == str(tmp_path)


def test_an_error_of_the_system_in_a_librarys_words(tmp_path):
    with (
        pytest.raises(StorageFull, match=rf"^{tmp_path}: cannot be written"),
        clear_faults(tmp_path),
    ):
        raise LibraryError("Error while serializing: No space left on device (os error 28)")
    with pytest.raises(OSError, match="Input/output") as raised, clear_faults(tmp_path):
        raise LibraryError("I/O error (os error 5)")
    assert raised.value.filename == str(tmp_path)
    with pytest.raises(StorageFull), clear_faults(tmp_path):
        raise LibraryError("Failed: write() failed: No space left on device; writing FILE; at byte")
    with pytest.raises(OSError, match="No locks") as raised, clear_faults(tmp_path):
        raise LibraryError("No locks available (os error 37)")
    assert raised.value.filename == str(tmp_path)
    with pytest.raises(OSError, match="not seekable") as odd, clear_faults(tmp_path):
        raise io.UnsupportedOperation("not seekable")
    assert describe_fault(odd.value) == f"{tmp_path}: not seekable"
    with pytest.raises(LibraryError), clear_faults(tmp_path):
        raise LibraryError("something else")
    with pytest.raises(BadInput), clear_faults(tmp_path):
        raise BadInput("FILE: cannot be read ((os error 28))")


@pytest.mark.parametrize("message", ["disk I/O error", "database is locked"])
def test_sqlites_errors_while_a_cache_is_created_name_it(message, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise sqlite3.OperationalError(message)

    monkeypatch.setattr(sqlite3, "connect", fail)
    with pytest.raises(BadInput, match=rf"{tmp_path}/index: cannot be created \({message}\)"):
        Index.create(tmp_path / "index", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), sqlite3.Error("odd")])
def test_no_error_of_the_system_is_a_traceback(error, capsys):
    def work():
        raise error

    with pytest.raises(SystemExit) as ended:
        entry.guard(work)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: a file or a drive that this command uses: ")


def test_a_name_that_is_not_utf8_is_printed_escaped():
    assert strip_control_characters(os.fsdecode(b"caf\xe9\x1b.png")) == r"caf\xe9.png"


def test_a_command_works_in_an_ascii_locale():
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        [sys.executable, "-m", "launch.sweep", "--help"],
        env=os.environ | ascii_locale,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert "…" in ended.stdout.decode()
    assert not ended.stderr


def test_a_python_that_ignores_its_environment_is_not_started_without_end():
    latin = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        [sys.executable, "-E", "-X", "utf8=0", "-m", "launch.sweep", "--helpful"],
        env=os.environ | latin,
        capture_output=True,
        timeout=20,
    )
    assert ended.returncode == 2


def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="not a regular file"):
            write_file(tmp_path / name, b"x")
    assert (tmp_path / "device").is_symlink() and len(list(tmp_path.iterdir())) == 2
