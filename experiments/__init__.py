"""Research: what is tried on the project itself."""

from nevis_stream import user_code

if __name__ == "experiments":  # imported from a checkout under its former name
    user_code.adopt(__name__)


def __getattr__(name: str) -> None:
    if name == "run_config":  # which guides showed here
        raise ImportError(
            "nevis_stream.experiments.run_config is now nevis_stream.configs.run_config"
        )
    raise AttributeError(f"module {__name__} has no attribute {name!r}")
