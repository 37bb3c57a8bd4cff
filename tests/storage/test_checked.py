"""Lines that are not as they were written are named, each with its own reason."""

import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nevis_stream.storage.record import LogReader, append_checked, read_checked


@pytest.mark.parametrize(
    ("change", "number", "problem"),
    [
        (lambda lines: [*lines, b'{"n":9}\n'], 5, "it has no checksum, unlike the line before it"),
        (lambda lines: [lines[0], lines[1].replace(b"2", b"7", 1), *lines[2:]], 2, "has changed"),
        (lambda lines: [lines[0], *lines[2:]], 2, "a line before it has changed, is missing"),
        (lambda lines: [*lines, lines[-1]], 5, "a line before it has changed, is missing"),
        (lambda lines: [b'{"n":0}\n', *lines], 2, "a line before it has changed, is missing"),
    ],
)
def test_a_line_that_was_not_written_so_is_named(tmp_path, change, number, problem):
    file = tmp_path / "log.jsonl"
    for n in range(1, 5):
        append_checked(file, {"n": n})
    assert not any(line.problem for line in read_checked(file))
    file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))
    wrong = [line for line in read_checked(file) if line.problem]
    assert wrong[0].number == number and problem in wrong[0].problem


def test_a_log_is_read_on_from_where_it_ended(tmp_path):
    file, texts = tmp_path / "log.jsonl", []
    log = LogReader(file)
    assert log.read() == ([], True)
    for n in range(4):
        append_checked(file, {"n": n})
        lines, is_anew = log.read()
        assert [(each.number, each.values) for each in lines] == [(n + 1, {"n": n})]
        assert is_anew == (n == 0) and log.read() == ([], False)
        texts.append(file.read_bytes())
    with file.open("ab") as torn:
        torn.write(b'{"n":')
    assert log.read() == ([], False)
    append_checked(file, {"n": 4})
    assert [each.values for each in log.read()[0]] == [{"n": 4}]
    file.write_bytes(texts[1])  # a copy is put back
    lines, is_anew = log.read()
    assert is_anew and [each.values for each in lines] == [{"n": 0}, {"n": 1}]
    file.write_bytes(texts[1].replace(b'"n":0', b'"n":7') + texts[2][len(texts[1]) :])
    assert [each.values for each in log.read()[0]] == [{"n": 2}]  # as the last line is as it was
    for _ in range(2):  # what is damaged is so at each reading
        file.write_bytes(texts[2][: len(texts[1])] + b"half of a line\n")
        os.utime(file)
        assert log.read()[0][-1].problem


def test_what_looks_damaged_while_another_process_writes_is_read_again(tmp_path):
    file = tmp_path / "log.jsonl"
    for n in range(3):
        append_checked(file, {"n": n})
    whole, log = file.read_bytes(), LogReader(file)
    log.read()
    append_checked(file, {"n": 3})
    complete = file.read_bytes()
    with file.open("r+b") as other, ThreadPoolExecutor() as pool:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.truncate(len(whole) + 5)
        other.seek(0, os.SEEK_END)
        other.write(b"\n")
        other.flush()
        reading = pool.submit(log.read)
        time.sleep(0.2)
        assert not reading.done()
        other.seek(0)
        other.write(complete)
        other.close()
        lines, is_anew = reading.result()
    assert [each.values for each in lines] == [{"n": 3}] and not is_anew and not lines[0].problem
