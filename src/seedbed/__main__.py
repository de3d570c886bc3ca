"""``seedbed`` and ``python -m seedbed``: what must be set before the slow imports, then the command line."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def _interrupted(*_: object) -> NoReturn:
    print("\ninterrupted; what was saved before is intact", file=sys.stderr)
    raise SystemExit(130)


def main() -> None:
    """Entry point; see ``cli.main`` for the exit statuses."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads of a library, on cores we have other use for
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are folders: nothing is ever fetched behind the user's back
    from seedbed.cli import main as command_line  # noqa: PLC0415 - after the above

    command_line()


if __name__ == "__main__":
    main()
