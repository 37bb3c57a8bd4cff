"""Names of learners that were pre-trained on other data than the paper's: a short name with a
mark, and the note that the mark refers to.
"""

import re
from collections import Counter
from collections.abc import Iterable

MARK = "†"
_NAME = re.compile(r"(\S.*?) \((stand-in: .*)\)")


def short_name(name: str) -> str:
    """Returns the name with a mark instead of the note in parentheses.

    >>> short_name("pt_ft (stand-in: pre-trained on omniglot (stream omniglot), not ImageNet)"), short_name("ft_d")
    ('pt_ft†', 'ft_d')
    """  # noqa: E501
    match = _NAME.fullmatch(name)
    return match[1] + MARK if match else name


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the short name of each; the whole name of those whose short names are the same."""
    shortened = {name: short_name(name) for name in names}
    counts = Counter(shortened.values())
    return {name: text if counts[text] == 1 else name for name, text in shortened.items()}


def notes(names: Iterable[str]) -> list[str]:
    """Returns the notes that the marks refer to, one text for each learner that has one.

    >>> notes(["ft_d", "pt_ft (stand-in: pre-trained on omniglot, not ImageNet)"])
    ['pt_ft†: stand-in: pre-trained on omniglot, not ImageNet']
    """
    matches = map(_NAME.fullmatch, dict.fromkeys(names))
    return [f"{match[1]}{MARK}: {match[2]}" for match in matches if match]
