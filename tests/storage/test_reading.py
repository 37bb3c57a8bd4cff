"""Files that may come from anybody are opened in one place: regular files only, of bounded size."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.importers import read_logs
from nevis_stream.launch import entry
from nevis_stream.storage import append_line, lock_exclusively
from nevis_stream.storage.reading import (
    explain_absence,
    load_array,
    open_file,
    open_text,
    parse_json,
    read_bytes,
    read_json,
    read_npz,
    resolve_path,
)

ROOT = Path(__file__).resolve().parents[2]
DEEP = "[" * 100_000 + "]" * 100_000
READERS = [open_file, open_text, read_bytes, read_json, load_array]
# what reads a file without `storage.reading`
_PAST = re.compile(
    r"\.read_bytes\(\)|\.read_text\(|np\.load\("
    r"|(?<![.\w])open\([^)]*\"rb\"|(?<!def )(?<![.\w])open\(\w+\)"
    r"|json\.loads\((?!json\.dumps\(|encode\(|dump_object\()"
)
_OWN = {  # files of this project, of the system, or that have just been written or checked
    "nevis_stream/storage/reading.py",
    "nevis_stream/storage/__init__.py",  # to sync
    "nevis_stream/evaluation_cache/index.py",  # to sync
    "nevis_stream/datasets/embedded/packaged.py",
    "nevis_stream/dynamic_evaluation/fits.py",  # /proc
    "nevis_stream/run_directory/environment.py",  # /proc
    "nevis_stream/launch/owned_program.py",  # a pipe
    "nevis_stream/launch/job.py",  # a script that submitit has just written
    "nevis_stream/datasets/preparation/unpack.py",  # what was just unpacked
    "nevis_stream/catalogue/__init__.py",
    "nevis_stream/report/palette.py",
    "nevis_stream/report/templates.py",
}


def take_lock(path):
    with lock_exclusively(path):
        raise AssertionError


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(read, kind, tmp_path, capsys):
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(SystemExit):
        entry.guard(lambda: read(path))
    special = "not a regular file, but a pipe or a device"
    reason = "Is a directory" if kind == "folder" else special
    assert explain_absence(path).startswith("a directory" if kind == "folder" else special)
    assert capsys.readouterr().err == f"error: {path}: {reason}\n"


def test_a_link_to_a_regular_file_is_followed(tmp_path):
    (tmp_path / "file").write_text("[1]")
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == [1]


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
@pytest.mark.parametrize("write", [lambda path: append_line(path, "x"), take_lock])
def test_locks_and_logs_are_regular_files_and_no_links(write, kind, tmp_path):
    """In a folder from elsewhere a link may lead to any file of the user's."""
    mine, path = tmp_path / "mine", tmp_path / "folder" / "lock"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(mine)
    if kind == "link":
        mine.write_text("precious, without a newline")
    with pytest.raises(OSError, match="pipe or a device" if kind == "pipe" else "symbolic link"):
        write(path)
    assert not mine.exists() or mine.read_text() == "precious, without a newline"


def test_a_loop_of_links_has_a_path(tmp_path):
    (tmp_path / "link").symlink_to("link")
    assert resolve_path(tmp_path / "link" / "file").name == "file"
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        open_file(tmp_path / "link")


def test_a_file_above_the_bound_is_not_read(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.truncate(1 << 40)  # which takes no space
    with pytest.raises(OSError, match="at most 1,073,741,824 are read"):
        read_bytes(tmp_path / "file")


def test_json_that_is_nested_too_deeply_is_bad_json():
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)
    assert parse_json('\ufeff{"a": 1}'.encode()) == {"a": 1}


def test_no_module_reads_a_file_past_the_one_place():
    past = {}
    for file in sorted((ROOT / "nevis_stream").rglob("*.py")):
        past |= _past(file)
    for folder in ("launch", "experiments", "learners"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            past |= _past(file)
    assert past == {}


def _past(file: Path) -> dict[str, list[str]]:
    name = file.relative_to(ROOT).as_posix()
    name = name if name.startswith("nevis_stream/") else f"nevis_stream/{name}"
    found = _PAST.findall(file.read_text(encoding="utf-8"))
    return {name: found} if found and name not in _OWN else {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 118,
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 100000000), }".ljust(118),
    ],
    ids=["empty", "header", "huge"],
)
def test_a_member_that_is_no_array_is_refused(content, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(BadInput, match="cannot be read as an .npz of plain arrays"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ('{"doc_id": 1, "x": ' + DEEP + "}", "line 1: is not JSON"),
        ('{"doc_id": 1, "metrics": 5}', "line 1: `metrics` is not a list of names"),
        ('{"doc_id": 1, "metrics": [["a"]]}', "line 1: `metrics` is not a list of names"),
        ('{"doc_id": 1, "metrics": ["a"], "a": 1' + "0" * 400 + "}", "a is a number of 401 digits"),
    ],
)
def test_a_hostile_log_is_refused_with_its_line(sample, words, tmp_path):
    (tmp_path / "samples_t_2024-01-01T00-00-00.000000.jsonl").write_text(sample + "\n")
    with pytest.raises(BadInput, match=words):
        read_logs(tmp_path)


def test_logs_in_very_deep_folders_are_looked_for(tmp_path):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1200):
            os.mkdir("q")
            os.chdir("q")
    finally:
        os.chdir(here)
    with pytest.raises(BadInput, match="has no logs"):
        read_logs(tmp_path)
    subprocess.run(["rm", "-rf", tmp_path / "q"], check=True)  # too deep for Python's own


def test_arrays_are_mapped_or_read(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    assert isinstance(load_array(tmp_path / "a.npy"), np.memmap)
    assert load_array(tmp_path / "a.npy", mapped=False).tolist() == [0, 1, 2]
