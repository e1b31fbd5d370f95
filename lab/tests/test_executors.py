import builtins
import os
import signal
import time

import pytest

from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp_lab.executors import workers


def threads(number):
    return number, os.environ["OPENBLAS_NUM_THREADS"], os.getpid()


def spread(task, arguments, **settings):
    with workers(task, **settings) as pool:
        for each in arguments:
            pool.submit(*each)
        return list(pool.finished(wait=True))


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_task_runs_once_in_another_process_with_one_thread():
    before = dict(os.environ)
    found = spread(threads, [(0,), (1,), (2,)], jobs=2)
    assert sorted(number for number, _, _ in found) == [0, 1, 2]
    assert {count for _, count, _ in found} == {"1"}
    assert os.getpid() not in {pid for _, _, pid in found}
    assert dict(os.environ) == before


def test_nothing_to_do_starts_nothing():
    assert spread(die, [], jobs=1) == []


def test_what_is_there_can_be_had_while_tasks_still_come():
    with workers(threads) as pool:
        assert list(pool.finished()) == []
        for number in (0, 1):
            pool.submit(number)
            while not (found := list(pool.finished())):
                time.sleep(0.01)
            assert [each[0] for each in found] == [number]
        assert list(pool.finished(wait=True)) == []


def test_a_killed_process_is_told():
    with pytest.raises(InputError, match="a process was killed"):
        spread(die, [(0,)])


def test_ray_is_an_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "ray":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[ray\]"):
        spread(threads, [(0,)], executor="ray")
