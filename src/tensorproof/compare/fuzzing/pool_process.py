"""A pool's process, `python -m tensorproof.compare.fuzzing.pool_process SECONDS`: lines of tasks in, of results out."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

from tensorproof.compare.fuzzing.tasks import perform
from tensorproof.compare.workers.fleet import Fleet


def main() -> None:
    """Perform tasks until the input ends, or the campaign's process is gone."""
    # Ctrl-C reaches the whole group of processes: the campaign decides what it means. Backend processes inherit this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Asked to end in the middle of a task, it ends its backend processes, too: one of them may hang.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with Fleet(time_limit=float(sys.argv[1])) as fleet:
        threading.Thread(target=_end_with_parent, args=(fleet, os.getppid()), daemon=True).start()
        for line in sys.stdin.buffer:
            result = perform(fleet, json.loads(line))
            try:
                answers.write(json.dumps(result).encode() + b"\n")
                answers.flush()
            except BrokenPipeError:
                return


def _end_with_parent(fleet: Fleet, parent: int) -> None:
    """A campaign that was killed cannot say so: without this, a process in the middle of a long task would outlive it."""
    while os.getppid() == parent:
        time.sleep(0.5)
    fleet.close()
    os._exit(1)


if __name__ == "__main__":
    main()
