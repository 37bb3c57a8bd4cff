"""What answers for a model, or labels samples: a function of the user, or values that are there.

Each call of a function may be paid for. So a loop around it ends where it is the function that is
wrong, and what it answered before is kept.
"""

import asyncio
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nevis_stream.errors import AnsweringFailed, BadInput, RunWarning, plural
from nevis_stream.queries.oracle import numbers_of_each
from nevis_stream.user_calls import FIRST_CALL, ReadOnlyList, ends_call, explain_refused_write

Pair = Callable[[Sequence[Any], Any], dict[Any, Any]]
"""Takes keys and what a function returned for them; returns what is kept, by key."""
MOST_ALIKE = 10  # failures in a row, after which the function is taken to be out of order
ADVICE = "`answers` of this error has what was answered."


def pair_numbers(keys: Sequence[Any], values: Any) -> dict[Any, float | None]:
    """Returns numbers by key, None where there is none.

    Raises:
      BadInput: there is not one value for each key.
    """
    numbers = numbers_of_each(values, len(keys)).tolist()
    return {
        key: None if number != number else number for key, number in zip(keys, numbers, strict=True)
    }


class UserFunction:
    """Calls what answers, and ends the loop around it where it is the function that is wrong.

    An error of the first call is raised as it is. Later a NameError, an ImportError, and
    `MOST_ALIKE` failures in a row that are alike raise `AnsweringFailed`. What is raised otherwise
    (see `user_calls.ends_call`) says that there is no answer to what was asked.

    Args:
      given: takes keys (ids of samples, rows), and returns a value for each; or takes one, in
        `ask_at_once`. Or the values by key, or an array of them in the order of `keys`.
      keys: all that there are.
      name: of the model, for messages.
      retries: how often one key is asked again.
      pair: see `Pair`.
      advice: the end of a message where it does not go on.

    Attributes:
      answers: all that it answered, by key.
      error: the last one that it raised.
    """

    def __init__(
        self,
        given: Any,
        keys: Sequence[Any],
        name: str = "the model",
        retries: int = 0,
        pair: Pair = pair_numbers,
        advice: str = ADVICE,
    ):
        self.answers: dict[Any, Any] = {}
        self.error: Exception | None = None
        self.name, self.advice = name, advice
        self._table = None if callable(given) else _read_table(given, keys, name, pair)
        self._function = self._look_up if self._table is not None else given
        self._is_async = any(
            map(inspect.iscoroutinefunction, (given, getattr(given, "__call__", None)))  # noqa: B004
        )
        self._retries, self._pair = retries, pair
        self._has_answered = False
        self._kind: Any = None  # of the last failures in a row that are alike
        self._alike = 0

    def _look_up(self, keys: Sequence[Any]) -> list[Any]:
        assert self._table is not None
        return [self._table.get(str(key)) for key in keys]

    def __call__(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """Returns the answers by key; one key is asked again where the function raises."""
        if self._is_async:
            self._refuse_async()
        for left in range(self._retries if len(keys) == 1 else 0, -1, -1):
            try:
                values = self._function(ReadOnlyList(keys))
                if inspect.isawaitable(values):
                    getattr(values, "close", lambda: None)()
                    self._refuse_async()
                return self._keep(keys, values)
            except Exception as error:
                self._judge(error)
                if len(keys) == 1 and not left and not ends_call(error):
                    self._count_failure(error)
                if not left or ends_call(error):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def ask_each(self, keys: Sequence[Any]) -> Iterator[dict[Any, Any]]:
        """Yields the answers by key, None where there is none: of all at once, or one at a time if
        the function then raises.
        """
        if len(keys) > 1:
            try:
                found = self(keys)
            except Exception as error:
                if ends_call(error):
                    raise
            else:
                yield found
                return
        for key in keys:
            try:
                found = self([key])
            except Exception as error:
                if ends_call(error):
                    raise
                found = self._warn(key, error)
            yield found

    async def ask_at_once(self, key: Any, timeout: float | None) -> Any:
        """Returns the answer of a coroutine function to one key, None where there is none.

        Args:
          key: what is asked; several at the same time.
          timeout: seconds of a call after which it counts as failed; None: no limit.
        """
        for left in range(self._retries, -1, -1):
            try:
                return await asyncio.wait_for(self._await(key), timeout)
            except Exception as error:
                if ends_call(error):
                    raise
                if not left:
                    self._count_failure(error)
                    self._warn(key, error)
        return None

    async def _await(self, key: Any) -> Any:
        try:
            value = self._call_one(key)
            if inspect.isawaitable(value):
                value = await value
            elif self._table is None:
                raise BadInput(
                    f"{self.name}: run_async takes a coroutine function (`async def`) of one id; a"
                    " plain function, which takes a list of ids, is for `run`."
                )
            return self._keep([key], [value])[key]
        except Exception as error:
            self._judge(error)
            raise

    def _call_one(self, key: Any) -> Any:
        if self._table is not None:
            return self._look_up([key])[0]
        try:
            return self._function(key)
        except Exception as error:
            if self._is_async or self._has_answered:
                raise
            raise BadInput(
                f"{self.name}: run_async takes a coroutine function (`async def`) of one id; this"
                f" one raised {_describe(error)}. A plain function, which takes a list of ids, is"
                " for `run`."
            ) from error

    def _refuse_async(self) -> NoReturn:
        raise BadInput(
            f"{self.name}: a plain function of a list of ids is expected, not a coroutine function:"
            " `Session.run_async` takes those, of one id."
        )

    def _keep(self, keys: Sequence[Any], values: Any) -> dict[Any, Any]:
        found = self._pair(keys, values)
        self._has_answered, self._kind = True, None
        self.answers |= {key: value for key, value in found.items() if value is not None}
        return found

    def _judge(self, error: Exception) -> None:
        """Raises what ends the loop; or marks the error of a first call, which does so as it is."""
        if ends_call(error):
            return
        self.error = error
        if reason := explain_refused_write(error):
            raise BadInput(reason) from error
        if not self._has_answered:
            error.add_note(FIRST_CALL)
        elif isinstance(error, NameError | ImportError):
            self.fail(f"a call raised {_describe(error)}")

    def _count_failure(self, error: Exception) -> None:
        """Counts one key without an answer."""
        self.error = error
        (place,) = traceback.extract_tb(error.__traceback__)[-1:]
        kind = type(error), place.filename, place.lineno
        self._alike = self._alike + 1 if kind == self._kind else 1
        self._kind = kind
        if self._alike >= MOST_ALIKE:
            self.fail(f"{self._alike} failures in a row were alike, the last {_describe(error)}")

    def fail(self, reason: str) -> NoReturn:
        """Raises `AnsweringFailed`, with the last error as its cause."""
        message = f"{reason}, so {self.name} is not asked any more. {self.advice}"
        raise AnsweringFailed(message, self.answers) from self.error

    def _warn(self, key: Any, error: Exception) -> dict[Any, Any]:
        warnings.warn(f"no answer to sample {key}: {_describe(error)}", RunWarning, stacklevel=3)
        return {key: None}


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error) or 'no message'}"


def _read_table(given: Any, keys: Sequence[Any], name: str, pair: Pair) -> Mapping[str, Any]:
    """Returns values by key, as text; some may be missing. Arguments as of `UserFunction`.

    Raises:
      BadInput: they are none of these keys, or are not values at all.
    """
    if hasattr(given, "items"):  # a Series of pandas has it too
        table = {str(key): value for key, value in given.items()}
        if not any(str(key) in table for key in keys):
            raise BadInput(
                f"{name}: the values are of none of the {plural(len(keys), 'sample')}, which are"
                f" named like {keys[0]!r}."
            )
        return table
    if isinstance(given, str | bytes | Path) or not hasattr(given, "__len__"):
        raise BadInput(
            f"{name}: {type(given).__name__} cannot answer. Give a function of a list of ids, or"
            f" the values: by id (a dict), or an array of {len(keys):,}, one for each sample."
        )
    return {str(key): value for key, value in pair(keys, given).items()}
