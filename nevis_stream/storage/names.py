"""Names that users choose and that become parts of file names."""

from nevis_stream.errors import BadInput

LONGEST = 128  # bytes; file systems take 255, and up to 80 are added to a name


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
