"""Whether JAX is tracing the running code; importing this does not load JAX."""

import functools
import sys
from collections.abc import Callable

from nevis_stream.errors import CostUnknown


def refuse_while_tracing(what: str) -> None:
    """Raises CostUnknown if JAX is tracing: what is charged then is charged once, and not each time
    that the program runs, and after a kill perhaps again.

    Args:
      what: was done, for the message.
    """
    if "jax" in sys.modules and _state() != _running():
        raise CostUnknown(
            f"{what} inside another compiled or differentiated function, where its calls cannot be"
            " counted. Use the plain function there, and ctx.jit or ctx.charge for the outermost"
            " one."
        )


def _state() -> object:
    return _opaque_state()()


@functools.cache
def _running() -> object:
    """The state in which nothing is traced."""
    import jax

    with jax.core.eval_context():
        return _state()


@functools.cache
def _opaque_state() -> Callable[[], object]:
    import jax
    from jax.extend import core

    return getattr(core, "get_opaque_trace_state", None) or jax.core.get_opaque_trace_state
