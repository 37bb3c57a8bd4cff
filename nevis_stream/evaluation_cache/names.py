"""Names in flags that separate them by commas, where a name may contain commas itself."""

from collections.abc import Collection, Sequence


def join_words(words: Sequence[str], known: Collection[str]) -> list[str]:
    """Returns words with those joined that are one known name; of several ways the longest.

    >>> join_words(["f1", "exact_match", "strict-match"], ["exact_match,strict-match", "f1"])
    ['f1', 'exact_match,strict-match']
    """
    joined, start = [], 0
    while start < len(words):
        ends = range(len(words), start + 1, -1)
        end = next((e for e in ends if ",".join(words[start:e]) in known), start + 1)
        joined.append(",".join(words[start:end]))
        start = end
    return joined
