"""Names of learners whose pre-training data stand in for others: short with a mark, and the note
that the mark refers to.
"""

import re
from collections.abc import Iterable

MARK = "†"
_NAME = re.compile(r"(\S.*?) \((stand-in: .*)\)")


def short(name: str) -> str:
    """Returns the name without what stands in for what, marked.

    >>> short("pt_ft (stand-in: pre-trained on omniglot (stream omniglot), not ImageNet)"), short("ft_d")
    ('pt_ft†', 'ft_d')
    """  # noqa: E501
    match = _NAME.fullmatch(name)
    return match[1] + MARK if match else name


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the short name of each, and the whole one of those whose short names are the same."""
    found = {name: short(name) for name in names}
    shared = list(found.values())
    return {name: one if shared.count(one) == 1 else name for name, one in found.items()}


def notes(names: Iterable[str]) -> list[str]:
    """Returns what the marks say, one text a learner that has one.

    >>> notes(["ft_d", "pt_ft (stand-in: pre-trained on omniglot, not ImageNet)"])
    ['pt_ft†: stand-in: pre-trained on omniglot, not ImageNet']
    """
    matches = map(_NAME.fullmatch, dict.fromkeys(names))
    return [f"{match[1]}{MARK}: {match[2]}" for match in matches if match]
