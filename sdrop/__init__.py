"""sdrop: LSTMs trained with structured dropout, whose zeroes are skipped and not multiplied.

import sdrop

lstm = sdrop.LSTM(650, 650, num_layers=2, dropout=0.5, recurrent_dropout=0.25)
"""

from sdrop import functional
from sdrop.backends import backends
from sdrop.keys import mask_key, name_sites, sequence
from sdrop.nn import CRF, LSTM, Dropout, Linear, LSTMCell
from sdrop.pattern import DropoutPattern

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "LSTM",
    "Dropout",
    "DropoutPattern",
    "LSTMCell",
    "Linear",
    "__version__",
    "backends",
    "functional",
    "mask_key",
    "name_sites",
    "sequence",
]
