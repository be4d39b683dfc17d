"""The one error for bad input."""


class InputError(ValueError):
    """Bad input, told in one sentence: what is wrong, where (file, column, key), how to mend it.

    The message may quote a setting or a declared value, never a value or a count read from private rows:
    it travels into logs and into the orchestrator's database.
    """
