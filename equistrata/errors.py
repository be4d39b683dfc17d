"""Errors that are meant for people: one sentence, and the exit code of a command that ends by it."""


class EquistrataError(Exception):
    """Something failed. Its message is one sentence: what is wrong, where (file, column, key), how to mend it.

    The message may quote a setting or a declared value, never a value or a count read from private rows:
    it travels into logs and into the orchestrator's database.
    """

    exit_code = 1


class InputError(EquistrataError, ValueError):
    """Bad input. Nothing was written or charged."""

    exit_code = 2
