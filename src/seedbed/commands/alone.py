"""What does one part of the work take? Runs a function in a fresh process, free of all that a command has loaded."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seedbed.types import UserError


def alone(function: str, arguments: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> Any:
    """What ``module:function`` returns for keyword arguments, both through JSON; ``variables`` are of the environment.

    Raises ``UserError`` where the function does, and if the process ends in any other way without a result.
    """
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(variables or {})}
    command = [sys.executable, "-m", "seedbed.commands.alone", function, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=surroundings, check=False, text=True)
    if not done.stdout:
        raise UserError(f"{function} ended with status {done.returncode}: see above; -9 means too little memory")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise UserError(answer["error"])
    return answer["result"]


def memory() -> dict[str, int]:
    """Bytes of this process: ``peak`` and ``resident`` of it all, ``private`` without files mapped into memory.

    Raises ``UserError`` elsewhere than on Linux. ``getrusage`` would count the peak of the parent process, too.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError as error:
        raise UserError("memory is read from /proc/self/status: run this on Linux") from error
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    wanted = {"peak": "VmHWM", "resident": "VmRSS", "private": "RssAnon"}
    return {ours: 1024 * int(fields[name][0]) for ours, name in wanted.items()}


def _main() -> None:
    module, _, name = sys.argv[1].partition(":")
    try:
        answer = {"result": getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))}
    except UserError as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()
