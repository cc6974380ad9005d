"""Work in threads, its results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from revgrad._system import usable_cores

Work = TypeVar("Work")
Result = TypeVar("Result")


def in_order(work: Callable[[Work], Result], tasks: Sequence[Work]) -> Iterator[Result]:
    """Results of `work` in threads, in order, with few of them waiting at a time."""
    threads = min(16, usable_cores())
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="revgrad-decode")
    try:
        for task in tasks:
            pending.append(pool.submit(work, task))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
