"""Tests never see the data that the user has prepared."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_data_root(tmp_path_factory):
    """Prepared data of the tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEVIS_STREAM_DATA", str(tmp_path_factory.mktemp("data")))
        yield
