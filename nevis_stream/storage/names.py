"""Names that users choose and that become parts of file names."""

import re

from nevis_stream.errors import BadInput

LONGEST = 128  # bytes; file systems take 255, and up to 80 are added to a name
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")  # as Python keeps a byte of a name that is not UTF-8


def readable(name: str) -> str:
    """Returns the name of a file as UTF-8 text: bytes that are not UTF-8 are escaped.

    >>> import os
    >>> readable(os.fsdecode(b"caf\\xe9.png"))
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
