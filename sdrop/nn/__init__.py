"""The modules, one concept a file."""

from sdrop.nn.crf import CRF
from sdrop.nn.dropout import Dropout
from sdrop.nn.linear import Linear
from sdrop.nn.lstm import LSTM
from sdrop.nn.lstm_cell import LSTMCell

__all__ = ["CRF", "LSTM", "Dropout", "LSTMCell", "Linear"]
