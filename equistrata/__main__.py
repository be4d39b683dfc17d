"""`python -m equistrata`, which is the installed command too."""

import signal


def main() -> None:
    """Import the command line, and run it.

    Imports take half a second. Ctrl-C ends them as any program, without a traceback of whatever was being imported.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # else somebody else decides what an interrupt does
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from equistrata.flows.cli.main import main as command

    signal.signal(signal.SIGINT, handler)
    command()


if __name__ == "__main__":
    main()
