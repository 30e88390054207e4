"""The one error that everything about data raises."""


class DataError(ValueError):
    """A data file, a corpus or a vocabulary is not as needed; the message says what to do."""
