"""Puts this folder on the path, so that its tests share `plain_translator`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
