"""The command line's entry point, of `flowloom` and of `python -m flowloom`."""

import signal


def main() -> None:
    """Run the command line. Until it handles signals itself, Ctrl-C ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from flowloom import cli

    cli.main()


if __name__ == "__main__":
    main()
