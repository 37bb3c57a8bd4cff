"""python -m tests.dynamic_evaluation.session_worker DIRECTORY THREADS PAUSE

A process that answers a session, in several threads, with a pause before each answer. By hand:

python -m tests.dynamic_evaluation.session_worker DIRECTORY THREADS PAUSE PROCESSES KILLS

starts that many such processes, kills one of them at a random instant and starts another in its
place, again and again, and at last compares the session with that of one worker.
"""

import random
import signal
import sys
import threading
import time
from pathlib import Path

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation.session_records import ANSWERS, ROUNDS
from nevis_stream.storage.record import read_checked
from tests.dynamic_evaluation.making import one_order
from tests.forked import Started

OUTCOMES = one_order(13, 60, seed=3)
KNOWN, NEW = OUTCOMES[1:], OUTCOMES[0]


def answers_to(ids):
    return {each: int(NEW[each]) for each in ids}


def content(directory):
    """What must be equal: rounds and answers, in whatever order these came."""
    answers = {}
    for line in read_checked(directory / ANSWERS):
        answers |= line.values["answers"]["new model"]
    return read_checked(directory / ROUNDS), answers


def work(directory, threads, pause):
    def answer():
        session = de.Session(directory)
        for ids in session.batches(count=2):
            for each in ids:
                time.sleep(pause)
                session.tell(answers_to([each]))

    workers = [threading.Thread(target=answer) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()


def kill_often(directory, threads, pause, processes, kills):
    def start():
        return Started(__spec__.name, directory, threads, pause)

    running, killed = [start() for _ in range(processes)], 0
    while killed < kills and not de.Session(directory).ended:
        time.sleep(random.uniform(0, 2 * pause))
        place = random.randrange(processes)
        if running[place].poll() is None:
            running[place].send_signal(signal.SIGKILL)
            killed += 1
        running[place].wait()
        running[place] = start()
    print(f"{killed} kills of {kills}, then the session was left to itself")
    return [each.wait() for each in running]


if __name__ == "__main__":
    where, threads, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    if len(sys.argv) == 4:
        work(where, threads, pause)
    else:
        board, method = de.read_board(KNOWN), "error+irt_1pl"
        one, many = (de.Session.start(where / name, board, 40, method=method) for name in "ab")
        for ids in one:
            one.tell(answers_to(ids))
        print(kill_often(where / "b", threads, pause, *map(int, sys.argv[4:])))
        assert content(where / "a") == content(where / "b")
        print(f"equal sessions: {one.estimate()} and {de.Session(where / 'b').estimate()}")
