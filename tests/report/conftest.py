"""What the tests of the report share."""

import pytest
from markupsafe import Markup

from nevis_stream.report import svg


def _undrawn():
    """Figures are made but not drawn, for tests that read a page's words and tables: drawing takes
    most of a page's time.
    """
    frame = Markup('<svg class="plot" role="img" aria-label="{}" id="{}"></svg>')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg, "inline", lambda figure, name, title: frame.format(title, name))
        yield


undrawn = pytest.fixture(_undrawn, name="undrawn")
all_undrawn = pytest.fixture(_undrawn, scope="module", name="all_undrawn")
