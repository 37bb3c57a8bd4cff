"""How a domain is drawn: colour and marker together, so that no figure relies on colour alone."""

from collections import Counter
from collections.abc import Iterable

from nevis_stream.report.palette import SERIES
from nevis_stream.report.styles import MARKERS, Style

_MARKERS = (*MARKERS, "<", ">", "p", "*", "h", "d")


def domain_styles(domains: Iterable[str]) -> dict[str, Style]:
    """Returns a style by domain, the most frequent first; up to 91 domains have styles of their
    own.
    """
    counts = Counter(domains)
    ranked = sorted(counts, key=lambda domain: (-counts[domain], domain))
    return {
        domain: Style(number % SERIES + 1, _MARKERS[number % len(_MARKERS)], ())
        for number, domain in enumerate(ranked)
    }
