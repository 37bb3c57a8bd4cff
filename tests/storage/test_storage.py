"""Files that survive a kill and a full disk."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from nevis_stream.errors import RunLocked
from nevis_stream.storage import (
    append_line,
    lock_exclusively,
    recover,
    remove_leftovers,
    write_directory,
    write_file,
)
from nevis_stream.storage.tables import LONGEST, name_files
from tests import killed_child


def test_append_cuts_what_a_crash_left(tmp_path):
    path = tmp_path / "log"
    append_line(path, "one")
    with open(path, "ab") as file:
        file.write(b"x" * 200_000)  # longer than one block of the backward search
    append_line(path, "two")
    assert path.read_bytes() == b"one\ntwo\n"


def test_several_processes_append_and_no_line_is_lost(tmp_path):
    program = "from pathlib import Path; import sys; from nevis_stream.storage import append_line\n"
    program += (
        "for k in range(60): append_line(Path(sys.argv[1]), f'{sys.argv[2]} {k} ' + 'x' * 2000)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "log"), str(i)])
        for i in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(line[:-2001] for line in lines) == sorted(
        f"{i} {k}" for i in range(4) for k in range(60)
    )


def test_a_file_that_cannot_be_written_is_named_as_it_was_wanted(tmp_path):
    (tmp_path / "wanted").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write_file(tmp_path / "wanted", b"1")
    assert raised.value.filename == str(tmp_path / "wanted")
    assert [path.name for path in tmp_path.iterdir()] == ["wanted"]


def test_write_directory_replaces_in_one_step(tmp_path):
    write_directory(tmp_path / "a", {"x": b"1", "y": b"2"})
    write_directory(tmp_path / "a", {"x": b"3"})
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == {"x": b"3"}
    assert os.listdir(tmp_path) == ["a"]


def test_two_may_write_the_same_directory(tmp_path):
    def write(content):
        for _ in range(40):
            write_directory(tmp_path / "a", {"x": content, "y": content})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [b"1", b"2"]))
    results = {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()}
    assert results in ({"x": b"1", "y": b"1"}, {"x": b"2", "y": b"2"})
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("next_start", [remove_leftovers, lambda path: recover(path / "a")])
def test_a_kill_at_any_instant_leaves_the_old_directory_or_the_new(tmp_path, next_start):
    old, new = {"x": b"1", "y": b"2"}, {"x": b"3"}
    contents, fatal, survived = [], 0, False
    while not survived:
        fatal += 1
        folder = tmp_path / str(fatal)
        write_directory(folder / "a", old)
        survived = killed_child.survives(lambda: write_directory(folder / "a", new), fatal)  # noqa: B023
        next_start(folder)
        contents.append({path.name: path.read_bytes() for path in (folder / "a").iterdir()})
        remove_leftovers(folder)
        assert os.listdir(folder) == ["a"]
    assert len(contents) > 5
    switch = contents.index(new)
    assert contents == [old] * switch + [new] * (len(contents) - switch)


def test_a_half_deleted_old_directory_is_never_put_back(tmp_path):
    """Killed while the old one is deleted, then killed while the next one replaces it."""
    for first in range(4, 9, 2):
        for second in range(2, 5):
            folder = tmp_path / f"{first}-{second}"
            write_directory(folder / "a", {"x": b"1", "y": b"1", "z": b"1"})
            for content, fatal in ((b"2", first), (b"3", second)):
                killed_child.survives(
                    lambda c=content, f=folder: write_directory(f / "a", dict.fromkeys("xyz", c)),
                    fatal,
                )
            remove_leftovers(folder)
            results = {path.name: path.read_bytes() for path in (folder / "a").iterdir()}
            assert sorted(results) == ["x", "y", "z"] and len(set(results.values())) == 1


def test_leftovers_are_removed(tmp_path):
    (tmp_path / ".tmp-a").write_bytes(b"")
    (tmp_path / ".tmp-b").mkdir()
    (tmp_path / "kept").write_bytes(b"")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["kept"]


def test_a_refused_write_leaves_the_old_content(tmp_path):
    """In a process that the system does not let write beyond 4096 bytes: what a full disk does to a
    write.

    (Not in this process: what pytest prints may go to a file as well.)
    """
    program = f"""
        import resource, signal
        from pathlib import Path
        import pytest
        from nevis_stream.errors import StorageFull
        from nevis_stream.storage import append_line, write_directory, write_file

        path = Path({str(tmp_path)!r})
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        write_file(path / "file", b"old")
        with pytest.raises(StorageFull, match=r"file: cannot be written .*same command again"):
            write_file(path / "file", b"n" * 5000)
        append_line(path / "log", "old")
        with pytest.raises(StorageFull, match="log: cannot be written"):
            append_line(path / "log", "n" * 5000)
        write_directory(path / "dir", {{"x": b"old"}})
        with pytest.raises(StorageFull):
            write_directory(path / "dir", {{"x": b"n" * 5000}})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "log").read_bytes() == b"old\n"
    assert (tmp_path / "dir" / "x").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["dir", "file", "log"]


def test_a_second_process_is_refused_and_told_who_holds_the_lock(tmp_path):
    program = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from nevis_stream.storage import lock_exclusively
        with lock_exclusively(Path({str(tmp_path / "lock")!r})):
            print("held", flush=True)
            sys.stdin.read()
        """
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(RunLocked, match=rf"pid {holder.pid} on [^)]+\)"),
        lock_exclusively(tmp_path / "lock"),
    ):
        pass
    holder.kill()
    holder.communicate()
    with lock_exclusively(tmp_path / "lock"):  # the system dropped it with the process
        pass


def test_the_name_of_a_new_log_is_synced_before_its_first_line_counts(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def sync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    log = tmp_path / "new" / "log.jsonl"
    append_line(log, "1")
    inodes = [path.stat().st_ino for path in (tmp_path, tmp_path / "new", log)]
    assert synced == inodes
    append_line(log, "2")
    assert synced == [*inodes, inodes[-1]]


def test_names_out_of_data_share_no_file(tmp_path):
    long = "x" * 300
    names = [
        "org/a",
        "org_a",
        "Org/A",
        "y: z?*",
        "..",
        "",
        ".a",
        long,
        f"{long}y",
        "é",
        "É",
        "\ud800",
    ]
    files = name_files([*names, "org_a"])
    assert list(files) == names and len({file.casefold() for file in files.values()}) == len(names)
    for file in files.values():
        assert len(file.encode()) <= LONGEST and not set(file) & set("/\\:?*") and file[0] != "."
        (tmp_path / file).mkdir()
    ordinary = ["trials-2-steps-120", "stream-random_40@1", "pico+partial", "my.own", "ünder"]
    assert name_files(ordinary) == dict(zip(ordinary, ordinary, strict=True))
    for order in (["x", "x-mistakes"], ["x-mistakes", "x"]):
        first, second = name_files(order, "-mistakes").values()
        assert first == order[0] and len({first, second, f"{first}-mistakes"}) == 3
        assert f"{second}-mistakes" != first
