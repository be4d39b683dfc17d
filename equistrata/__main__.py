"""Entry point of the command line, for `python -m equistrata` and for the installed command."""

import signal


def main() -> None:
    """Import the command line and run it.

    The import takes half a second. If the user presses Ctrl-C during this time, the program ends without a traceback.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # otherwise other code has set its own handler
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from equistrata.flows.cli.main import main as command

    signal.signal(signal.SIGINT, handler)
    command()


if __name__ == "__main__":
    main()
