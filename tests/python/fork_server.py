"""A fork server, which starts the command line in milliseconds: a process that has imported everything forks for each call.

Each line of its stdin is a JSON list of arguments. The server answers with the child's process id and, when the child has
ended, with its exit code (negative: the signal that killed it). Each child has its own process group, and writes stderr to the
file in the environment variable FORK_SERVER_STDERR.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


class ForkServer:
    """The client, which starts the server process and sends it commands."""

    def __init__(self, folder: Path) -> None:
        self.stderr = folder / "stderr.txt"
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"FORK_SERVER_STDERR": str(self.stderr)},
        )
        assert self._process.stdout.readline() == "ready\n"

    def start(self, *words: object) -> int:
        """Start a command and give its process id."""
        self.stderr.write_text("")  # what the last command wrote must not be taken for this one's
        print(json.dumps([str(word) for word in words]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def end(self) -> tuple[int, str]:
        """Wait for the command; give its exit code and stderr."""
        return int(self._process.stdout.readline()), self.stderr.read_text()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve() -> None:
    from typer.testing import CliRunner

    from conftest import SMALL
    from flowloom import cli

    # As at the program's start (flowloom/__main__.py), and behind the imports, since that of conftest sets Python's handler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    # Once through everything: what is imported on first use is imported now.
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "small.toml"
        scenario.write_text(SMALL)
        done = CliRunner().invoke(cli.app, ["run", str(scenario), "--csv", "--out", f"{folder}/r"])
        assert done.exit_code == 0, done.output
    print("ready", flush=True)
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            os.setpgid(0, 0)
            _run(cli.main, json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(main, words) -> None:
    code = 1
    try:
        for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
            os.dup2(os.open(os.devnull, mode), number)
        os.dup2(os.open(os.environ["FORK_SERVER_STDERR"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)
        sys.argv = ["flowloom", *words]
        main()
    except SystemExit as left:
        code = left.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
