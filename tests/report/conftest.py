"""What the tests of the report share."""

import pytest
from markupsafe import Markup

from nevis_stream.report import svg


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are made but not drawn, for tests that read a page's words and tables: drawing takes
    most of a page's time.
    """
    frame = Markup('<svg class="plot" role="img" aria-label="{}" id="{}"></svg>')
    monkeypatch.setattr(svg, "inline", lambda figure, name, title: frame.format(title, name))
