"""Words in sentences that programs write."""


def plural(n: int, noun: str) -> str:
    """Returns a number and its noun.

    >>> plural(1, "task"), plural(5, "task")
    ('1 task', '5 tasks')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
