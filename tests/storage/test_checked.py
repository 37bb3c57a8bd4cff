"""Lines that are not as they were written are named, each with its own reason."""

import pytest

from nevis_stream.storage.record import append_checked, read_checked


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
