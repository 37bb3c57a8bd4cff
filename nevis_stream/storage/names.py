"""Names that users choose: those that become parts of file names, and those that look alike."""

import re
from collections.abc import Iterable

from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import parse_whole

_MOST = 10  # names in a sentence
LONGEST = 128  # bytes; file systems take 255, and up to 80 are added to a name
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")  # as Python keeps a byte of a name that is not UTF-8


def as_text(name: str) -> str:
    """Returns the name of a file as UTF-8 text: bytes that are not UTF-8 are escaped.

    >>> import os
    >>> as_text(os.fsdecode(b"caf\\xe9.png"))
    'caf\\\\xe9.png'
    """
    return _NOT_UTF_8.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", name)


def check_name(name: str, meaning: str) -> None:
    """Checks that a name can be a part of file names.

    Args:
      name: the name.
      meaning: what it names, for the message.

    Raises:
      BadInput: it is empty or too long, has characters other than letters, digits, "_", "-" and
        ".", or begins with ".".
    """
    length = len(name.encode(errors="replace"))
    if length > LONGEST:
        raise BadInput(
            f"{meaning} has {length} bytes ({name[:20]!r}…) and would make file names too long;"
            " use at"
            f" most {LONGEST}."
        )
    characters = all(char.isalnum() or char in "_-." for char in name)
    if not name or not characters or name.startswith("."):
        raise BadInput(
            f"{meaning} is {name!r}; use letters, digits, '_', '-' and '.', and do not begin with"
            " '.'."
        )


def similar_names(names: Iterable[str], noun: str = "classes") -> list[str]:
    """Returns a sentence if names differ only in case, blanks or leading zeros.

    >>> similar_names(["cat", "Cat ", "dog", "1", "01"])
    ["these classes are kept apart, though their names are nearly the same: '01' and '1'; 'Cat ' \
and 'cat'"]
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        plain = " ".join(name.split()).casefold()
        number = parse_whole(plain)
        groups.setdefault(plain if number is None else str(number), []).append(name)
    alike = [" and ".join(map(repr, group)) for group in groups.values() if len(group) > 1]
    if not alike:
        return []
    more = f"; and {len(alike) - _MOST} more" if len(alike) > _MOST else ""
    return [
        f"these {noun} are kept apart, though their names are nearly the same: "
        + "; ".join(alike[:_MOST])
        + more
    ]
