"""Names of the programs that JAX compiles."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def compiled_programs() -> Iterator[list[str]]:
    """Gives a list to which the name of each program is added that is compiled meanwhile."""
    names, listening = [], True

    def listener(event, seconds, **facts):
        if listening and event == "/jax/core/compile/backend_compile_duration":
            names.append(str(facts.get("fun_name")).removeprefix("jit(").removesuffix(")"))

    # Not unregistered: jax 0.8 has no public function for it.
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield names
    finally:
        listening = False
