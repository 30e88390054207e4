import os

import pytest


@pytest.fixture
def no_rights(tmp_path):
    """A folder that may be neither looked into nor written to, for root too."""
    folder = tmp_path / "locked"
    folder.mkdir()
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    folder.chmod(0o700)
