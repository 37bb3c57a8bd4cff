"""What a killed process has left is deleted by the next one that writes into the same folder."""

import errno
import fcntl
import os
import stat
import tempfile

import numpy as np
import pytest

from nevis_stream import dynamic_evaluation as evaluation
from nevis_stream import storage
from nevis_stream.active_testing.labelling import session as labelling
from nevis_stream.active_testing.labelling.files import PoolPart, write_pool_part
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.dynamic_evaluation.session_loop import hold_name, is_gone
from nevis_stream.evaluation_cache.index import Index
from nevis_stream.report.exports import Files
from nevis_stream.storage import checkpoint, recover, write_directory, write_file
from tests.active_testing.labelling.sessions import begin
from tests.dynamic_evaluation.session_worker import KNOWN
from tests.killed_child import survives

NEVER = 10**6


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """Each process of a test looks anew."""
    monkeypatch.setattr(storage, "_swept", set())


def write_pool(folder):
    predictions = np.full((1, 2, 3), 1 / 3)
    write_pool_part(
        folder, 0, PoolPart("pool", ["a", "b"], predictions, SurrogateData(predictions[0]))
    )


def hold(folder):
    with hold_name(folder):
        pass


def write_scratch(folder):
    tempfile.tempdir = str(folder)
    with storage.make_scratch_folder("a") as scratch:
        (scratch / "half").touch()


WRITERS = {
    "file": lambda folder: write_file(folder / "a.txt", b"whole"),
    "folder": lambda folder: write_directory(folder / "a", {"one": b"1", "two": b"2"}),
    "cache": lambda folder: Index.create(folder / "index.sqlite", {}),
    "report": lambda folder: Files(folder).write("report.html", b"page"),
    "fit": lambda folder: checkpoint.write(folder / "fits" / "mean", {"fit": np.ones(2)}, {}),
    "session": write_pool,
    "worker": hold,
    "scratch": write_scratch,
}


def leftovers(folder):
    return sorted(path.name for path in folder.rglob(".*-*"))


@pytest.mark.parametrize(
    "is_there",
    [pytest.param(False, id="new", marks=pytest.mark.slow), pytest.param(True, id="replaced")],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_killed_at_every_change_and_started_again(tmp_path, writer, is_there):
    """Nothing is left but the result, and a kill did leave something."""
    left, fatal = 0, 0
    while True:
        fatal += 1
        folder = tmp_path / str(fatal)
        folder.mkdir()
        if is_there:
            assert survives(lambda folder=folder: WRITERS[writer](folder), NEVER)
        if survives(lambda folder=folder: WRITERS[writer](folder), fatal):
            break
        left += bool(leftovers(folder))
        assert survives(lambda folder=folder: WRITERS[writer](folder), NEVER)
        assert not leftovers(folder)
    assert left


@pytest.fixture(params=["local", "nfs"])
def drive(request, monkeypatch):
    """A local drive, and one whose locks are those of NFS between two nodes: a folder's are of its
    node alone, and a file must be open for what the lock is for.
    """
    plain = fcntl.flock

    def flock(file, mode):
        number = file if isinstance(file, int) else file.fileno()
        if stat.S_ISDIR(os.fstat(number).st_mode):
            return
        reading = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if reading and mode & fcntl.LOCK_EX:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        plain(file, mode)

    if request.param == "nfs":
        monkeypatch.setattr(fcntl, "flock", flock)


def test_a_worker_at_work_is_not_gone(tmp_path, drive):
    with hold_name(tmp_path) as name:
        assert not is_gone(tmp_path, name)
    assert is_gone(tmp_path, name)


def test_what_a_killed_worker_left_is_deleted_by_those_who_ask_for_it(tmp_path):
    workers = tmp_path / "workers"
    assert not survives(lambda: hold(tmp_path), 2)
    (left,) = os.listdir(workers)
    assert is_gone(tmp_path, left.removeprefix(".tmp-"))
    assert not os.listdir(workers)
    (workers / "mine").touch()
    with hold_name(tmp_path):
        pass
    assert os.listdir(workers) == ["mine"]


def test_a_session_that_is_opened_deletes_what_its_last_command_left(tmp_path):
    """Which had done all but that, so that none after it writes into the same folder."""
    evaluated = evaluation.Session.start(
        tmp_path / "a", evaluation.read_board(KNOWN), 5, method="stratified_mean"
    )
    labelled, _ = begin(tmp_path / "b")
    folders = [evaluated.directory, evaluated.directory / "board", labelled.directory]
    for folder in folders:
        storage.make_temporary_name(folder / "index.sqlite").touch()
    fit = evaluated.directory / "board" / "fits" / "stratified_mean"
    assert not survives(lambda: write_directory(fit, {"one": b"1"}), 4)
    storage._swept.clear()
    evaluation.Session(evaluated.directory)
    labelling.Session(labelled.directory)
    assert not [name for folder in folders for name in leftovers(folder)]


def test_scratch_is_of_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with storage.make_scratch_folder("a") as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not os.listdir(tmp_path)


def test_those_of_a_process_at_work_stay(tmp_path, drive):
    """Another process writes into the same folder meanwhile; one of its files and one folder are
    unfinished.
    """
    with (
        storage.make_temporary(tmp_path / "a") as file,
        storage.make_temporary(tmp_path / "b", is_folder=True) as folder,
    ):
        assert survives(lambda: write_file(tmp_path / "c", b""), NEVER)
        assert file.is_file() and folder.is_dir()
    assert sorted(os.listdir(tmp_path)) == ["c"]


def test_sqlites_files_beside_a_database_are_deleted_with_it(tmp_path):
    database = storage.make_temporary_name(tmp_path / "index.sqlite")
    others = [tmp_path / f".tmp-mark-{'0' * 16}", tmp_path / ".tmp-123", tmp_path / "mine-wal"]
    for path in (database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))):
        path.touch()
    for path in others:
        path.touch()
    write_file(tmp_path / "a", b"")
    assert sorted(os.listdir(tmp_path)) == sorted([*(path.name for path in others), "a"])


def test_a_link_in_place_of_a_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "target").mkdir()
    link = storage.make_temporary_name(tmp_path / "a")
    link.symlink_to("target")
    write_file(tmp_path / "a", b"")
    assert link.is_symlink() and (tmp_path / "target").is_dir()


def test_a_folder_that_could_not_be_deleted_is_deleted_by_the_next(tmp_path, monkeypatch):
    with monkeypatch.context() as failing, storage.make_temporary(tmp_path / "a", True) as folder:
        (folder / "file").touch()
        failing.setattr(storage.shutil, "rmtree", lambda *_, **__: None)  # as a failing drive
    assert (folder / "file").exists()
    storage._swept.clear()  # of another process
    storage.remove_abandoned(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_folder", [False, True])
def test_an_error_leaves_none(tmp_path, is_folder):
    with (
        pytest.raises(ZeroDivisionError),
        storage.make_temporary(tmp_path / "a", is_folder) as made,
    ):
        (made / "b" if is_folder else made).write_bytes(b"half")
        raise ZeroDivisionError
    assert not os.listdir(tmp_path)


def test_a_folder_that_an_earlier_version_left_is_deleted(tmp_path):
    """It locked the folder itself."""
    (storage.make_temporary_name(tmp_path / "a") / "half").mkdir(parents=True)
    write_file(tmp_path / "b", b"")
    assert os.listdir(tmp_path) == ["b"]


def test_one_that_was_replaced_and_half_deleted_is_deleted_before_the_new_one_is_read(tmp_path):
    assert survives(lambda: write_directory(tmp_path / "fit", {"one": b"1"}), NEVER)
    half = storage.make_temporary_name(tmp_path / ".old-fit-01234567")
    half.mkdir()
    assert survives(lambda: recover(tmp_path / "fit"), NEVER)
    assert os.listdir(tmp_path) == ["fit"]


def test_a_cache_that_is_written_deletes_the_second_name_of_its_index(tmp_path):
    """Which a power cut may keep, though the index has its name."""
    index = tmp_path / "index.sqlite"
    Index.create(index, {})
    second = storage.make_temporary_name(index)
    os.link(index, second)
    storage._swept.clear()
    with Index(index).writing():
        pass
    assert index.exists() and not second.exists()
