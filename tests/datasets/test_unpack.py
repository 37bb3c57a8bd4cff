"""Archives that cannot be trusted: truncated, altered, escaping, exploding."""

import gzip
import io
import os
import tarfile
import zipfile

import pytest

from nevis_stream.datasets.preparation import unpack as unpacking
from nevis_stream.datasets.preparation.unpack import strip_suffix, unpack, unpack_nested
from nevis_stream.errors import BadInput
from tests.datasets.archives.making import tar_bytes, write_gz, write_tar, write_zip

MEMBERS = {"a/1.txt": b"one" * 400, "a/b/2.txt": b"two"}


def write(path):
    if path.suffix == ".zip":
        write_zip(path, MEMBERS)
    elif ".tar" in path.suffixes or path.suffix == ".tgz":
        write_tar(path, MEMBERS)
    else:
        write_gz(path, MEMBERS["a/1.txt"])


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tgz"])
def test_archives_become_folders_named_like_them(tmp_path, name):
    write(tmp_path / name)
    unpack(tmp_path / name, tmp_path / "work")
    unpack(tmp_path / name, tmp_path / "work")  # what is there is left
    work = tmp_path / "work/x"
    results = {path.relative_to(work).as_posix(): path.read_bytes() for path in work.rglob("*.txt")}
    assert results == MEMBERS and strip_suffix(name) == "x"


def test_single_files_and_folders(tmp_path):
    write(tmp_path / "train-images.gz")
    (tmp_path / "list.txt").write_text("x")
    (tmp_path / "images").mkdir()
    for name in ("train-images.gz", "list.txt", "images"):
        unpack(tmp_path / name, tmp_path / "work")
    assert (tmp_path / "work/train-images").read_bytes() == MEMBERS["a/1.txt"]
    assert (tmp_path / "work/list.txt").read_text() == "x" and (tmp_path / "work/images").is_dir()


def test_nested_archives(tmp_path):
    inner = tar_bytes({"p/1.txt": b"deep"}, "w:gz")
    write_zip(tmp_path / "x.zip", {"y/z.tar.gz": inner})
    unpack(tmp_path / "x.zip", tmp_path / "work")
    unpack_nested(tmp_path / "work", ["x/**/*.tar.gz"])
    assert (tmp_path / "work/x/y/z/p/1.txt").read_bytes() == b"deep" and not (
        tmp_path / "work/x/y/z.tar.gz"
    ).exists()


def test_a_folder_of_the_users_stays_as_it_is(tmp_path):
    write_tar(tmp_path / "inner.tar", {"1.txt": b"one"})
    (tmp_path / "mine/x").mkdir(parents=True)
    (tmp_path / "inner.tar").rename(tmp_path / "mine/x/inner.tar")
    unpack(tmp_path / "mine/x", tmp_path / "work")
    unpack_nested(tmp_path / "work", ["x/*.tar"])
    assert (tmp_path / "work/x/inner/1.txt").read_bytes() == b"one"
    assert [path.name for path in (tmp_path / "mine/x").iterdir()] == ["inner.tar"]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.gz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_a_truncated_archive_is_named_and_leaves_nothing(tmp_path, name, share):
    path = tmp_path / name
    write(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data.rstrip(b"\0")))])
    if share == 0.9 and name == "x.tar":
        path.write_bytes(data[:1600])  # in the middle of a member
    with pytest.raises(BadInput, match=f"{name}: is damaged or truncated .*Fetch it again"):
        unpack(path, tmp_path / "work")
    assert not (tmp_path / "work/x").exists()


def test_an_altered_zip_is_noticed(tmp_path):
    write_zip(tmp_path / "x.zip", MEMBERS)
    data = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(data.replace(b"oneone", b"oneOne", 1))
    with pytest.raises(BadInput, match="x.zip: .*CRC"):
        unpack(tmp_path / "x.zip", tmp_path / "work")


@pytest.mark.parametrize(
    "member", ["../evil.txt", "a/../../evil.txt", "/etc/evil.txt", "..\\evil.txt", "C:/evil.txt"]
)
@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
def test_nothing_is_written_outside(tmp_path, name, member):
    (write_zip if name == "x.zip" else write_tar)(tmp_path / name, {"a.txt": b"x", member: b"evil"})
    with pytest.raises(
        BadInput, match=f"{name}: its member .* would be written outside of the folder"
    ):
        unpack(tmp_path / name, tmp_path / "deep/work")
    assert not list(tmp_path.rglob("evil.txt"))


def test_links_in_a_tar_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        info = tarfile.TarInfo("a.txt")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    unpack(tmp_path / "x.tar", tmp_path / "work")
    assert [path.name for path in (tmp_path / "work/x").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.gz"])
def test_a_bomb_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 2**20)
    zeros = bytes(8 * 2**20)
    if name == "x.zip":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a", zeros)
    elif name == "x.gz":
        (tmp_path / name).write_bytes(gzip.compress(zeros))
    else:
        write_tar(tmp_path / name, {"a": zeros})
    with pytest.raises(BadInput, match="would grow from .* bytes when unpacked"):
        unpack(tmp_path / name, tmp_path / "work")
    assert not (tmp_path / "work/x").exists()


def test_a_zip_that_lies_about_its_size_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 2**20)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(8 * 2**20))
    data = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(
        data.replace((8 * 2**20).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    )
    with pytest.raises(BadInput):
        unpack(tmp_path / "x.zip", tmp_path / "work")
    assert not (tmp_path / "work/x").exists()


def test_a_kill_while_unpacking_leaves_nothing_that_looks_whole(tmp_path, monkeypatch):
    write_zip(tmp_path / "x.zip", MEMBERS)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(unpacking, "_copy", killed)
        with pytest.raises(KeyboardInterrupt):
            unpack(tmp_path / "x.zip", tmp_path / "work")
    assert not (tmp_path / "work/x").exists()
    unpack(tmp_path / "x.zip", tmp_path / "work")
    assert [
        path.name for path in (tmp_path / "work").iterdir() if not path.name.startswith(".from")
    ] == ["x"]


def test_another_archive_of_the_same_name_is_unpacked_anew(tmp_path):
    write_zip(tmp_path / "x.zip", MEMBERS)
    unpack(tmp_path / "x.zip", tmp_path / "work")
    write_zip(tmp_path / "x.zip", {"c.txt": b"three"})
    unpack(tmp_path / "x.zip", tmp_path / "work")
    assert [path.name for path in (tmp_path / "work/x").iterdir()] == ["c.txt"]


def test_tools_that_are_missing_are_named(tmp_path, monkeypatch):
    (tmp_path / "x.rar").write_bytes(b"Rar!")
    monkeypatch.setattr(unpacking.shutil, "which", lambda name: None)
    with pytest.raises(
        BadInput,
        match="bsdtar, unrar or 7z is needed .* unpack it by hand into a folder x next to it",
    ):
        unpack(tmp_path / "x.rar", tmp_path / "work")


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.gz", "folder"])
def test_the_mark_comes_after_the_bytes_and_names_are_synced(tmp_path, monkeypatch, name):
    """What a power cut may take: everything whose file or folder was not synced before."""
    if name == "folder":
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "a" / "1.txt").write_text("one")
    else:
        write(tmp_path / name)
    synced, marked = set(), []
    fsync, write_mark = os.fsync, unpacking.write_file

    def sync(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def mark(path, data):
        below = [path.parent, *path.parent.rglob("*")]
        marked.append([each for each in below if not each.is_symlink()])
        assert {each.stat().st_ino for each in marked[-1]} <= synced
        write_mark(path, data)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(unpacking, "write_file", mark)
    unpack(tmp_path / name, tmp_path / "new" / "work")
    assert len(marked) == 1 and marked[0]
    assert tmp_path.stat().st_ino in synced  # the name of the folder `new`


def test_what_an_earlier_version_unpacked_without_a_sync_is_unpacked_again(tmp_path):
    write(tmp_path / "x.gz")
    facts = (tmp_path / "x.gz").stat()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "x").write_bytes(bytes(1200))
    mark = tmp_path / "work" / ".from-x"
    mark.write_text(f"{tmp_path / 'x.gz'} {facts.st_size} {facts.st_mtime_ns}")
    unpack(tmp_path / "x.gz", tmp_path / "work")
    assert (tmp_path / "work" / "x").read_bytes() == MEMBERS["a/1.txt"]


@pytest.mark.parametrize("changed", ["a/1.txt", "a/inner/3.txt"])
def test_what_has_changed_since_it_was_unpacked_is_unpacked_again(tmp_path, changed):
    write_zip(tmp_path / "inner.zip", {"3.txt": b"three"})
    inner = (tmp_path / "inner.zip").read_bytes()
    write_zip(tmp_path / "x.zip", MEMBERS | {"a/inner.zip": inner})
    work = tmp_path / "work"

    def unpack_all():
        unpack(tmp_path / "x.zip", work)
        unpack_nested(work, ["x/a/*.zip"])

    unpack_all()
    file = work / "x" / changed
    before, content = file.stat().st_ino, file.read_bytes()
    unpack_all()
    assert file.stat().st_ino == before  # kept
    file.write_bytes(bytes(len(content)))
    unpack_all()
    assert file.read_bytes() == content
    (work / "x" / changed).unlink()
    unpack_all()
    assert file.read_bytes() == content
