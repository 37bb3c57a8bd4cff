"""Tests never see the data that the user has prepared."""

import hypothesis
import pytest

# How long an example takes says more of what else the machine does than of the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def own_data_root(tmp_path_factory):
    """Prepared data of the tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEVIS_STREAM_DATA", str(tmp_path_factory.mktemp("data")))
        yield
