"""Number and duration of XLA's compilations in this process; importing this does not load JAX."""

_count = 0
_seconds = 0.0


def so_far() -> tuple[int, float]:
    """Returns the number of compilations since `listen` was called, and their seconds."""
    return _count, _seconds


def listen() -> None:
    """Starts counting; called once, by the module that compiles."""
    import jax

    def add(event: str, seconds: float, **facts) -> None:
        global _count, _seconds
        if event == "/jax/core/compile/backend_compile_duration":
            _count += 1
            _seconds += seconds

    jax.monitoring.register_event_duration_secs_listener(add)
