"""Schema changes of one session: each story in `stories/ddl` is played on Froglet and on PostgreSQL."""

import pytest

from support import story


@pytest.mark.parametrize("told", story.every("ddl"))
def test_story(server, told):
    told.play(server)
