# SPDX-License-Identifier: BSD-3-Clause
"""farkv.aio: requests in flight, errors, cancellation, a killed server."""
import asyncio
import os
import signal
from datetime import timedelta

import pytest

import farkv
import farkv.aio


def run(server, work, **options):
    async def main():
        async with await farkv.aio.connect(server.uri, **options) as store:
            return await work(store)
    return asyncio.run(main())


@pytest.mark.rdma
def test_each_request_gets_its_own_result(server):
    async def work(store):
        await store.put(b"k", b"v")
        data, version, _, _ = await store.gets(b"k")
        assert data == b"v" and await store.get(b"none") is None
        assert await store.exists(b"k") and not await store.exists(b"none")
        assert await store.cas(b"k", b"w", version) != version
        with pytest.raises(farkv.VersionMismatch):
            await store.cas(b"k", b"x", version)
        with pytest.raises(farkv.Exists):
            await store.add(b"k", b"x")
        with pytest.raises(KeyError):
            await store.replace(b"none", b"x")
        await store.replace(b"k", b"y")
        with pytest.raises(farkv.Invalid) as found:
            await store.put(b"", b"x")
        assert found.value.detail
        version = (await store.gets(b"k")).version
        with pytest.raises(farkv.VersionMismatch):
            await store.delete(b"k", version + 1)
        await store.delete(b"k", version)
        await store.put(b"k", b"z")
        await store.delete(b"k")
        with pytest.raises(farkv.NotFound):
            await store.gets(b"k")
    run(server, work)


def test_counters_and_touch_are_one_step_to_others(server):
    async def work(store):
        assert await store.incr(b"n", 5, initial=7, ttl=3600) == 7
        assert sorted(await asyncio.gather(*(store.incr(b"n") for _ in range(50)))) == \
            list(range(8, 58))
        value = await store.gets(b"n")
        assert value.data == b"57" and 3000 < value.ttl <= 3600
        assert await store.decr(b"n", 100) == 0 and await store.decr(b"m", initial=3) == 3
        await store.put(b"n", b"%d" % (2 ** 64 - 1))
        assert await store.incr(b"n", 3) == 2
        for number in (-1, 2 ** 64):
            for call in (lambda: store.incr(b"n", number), lambda: store.decr(b"n", number),
                         lambda: store.incr(b"none", initial=number)):
                with pytest.raises(OverflowError):
                    await call()
        with pytest.raises(TypeError):
            await store.incr(b"n", 1.5)
        assert await store.get(b"n") == b"2"
        for bad in b"", b"x", b" 1", b"-1", b"%d" % 2 ** 64:
            await store.put(b"n", bad)
            with pytest.raises(farkv.Invalid):
                await store.incr(b"n")
        with pytest.raises(farkv.NotFound):
            await store.incr(b"none")
        with pytest.raises(ValueError):
            await store.incr(b"none", ttl=1)
        with pytest.raises(farkv.NotFound):
            await store.touch(b"none", 10)
        await store.put(b"k", b"v", user=7)
        await store.touch(b"k", 1000)
        first = await store.gets(b"k")
        assert first.data == b"v" and first.user == 7 and 900 < first.ttl <= 1000
        await store.touch(b"k", 1000)
        assert (await store.gets(b"k")).version == first.version
        await store.touch(b"k", None)
        assert (await store.gets(b"k"))[2:] == (None, 7)
        await store.mput([(b"1", b"a"), (b"2", b"b")], ttl=100, user=9)
        for key in b"1", b"2":
            value = await store.gets(key)
            assert value.user == 9 and 60 < value.ttl <= 100
    run(server, work)


def test_requests_carry_a_time_to_live_and_a_number(server):
    async def work(store):
        async def holds(key, data, user):
            value = await store.gets(key)
            assert value.data == data and value.user == user and 60 < value.ttl <= 3600
            return value.version

        # More than are submitted together, and in between some without.
        await asyncio.gather(*(store.put(b"%d" % i, b"v", user=i, ttl=None if i % 2 else 3600)
                               for i in range(300)))
        for i in range(0, 300, 2):
            await holds(b"%d" % i, b"v", i)
            assert (await store.gets(b"%d" % (i + 1)))[2:] == (None, i + 1)
        await store.put(b"0", b"w")
        assert (await store.gets(b"0"))[2:] == (None, 0)
        hour = timedelta(hours=1)
        await store.add(b"k", b"1", ttl=hour, user=1)
        await store.replace(b"k", b"2", ttl=hour, user=2)
        await store.cas(b"k", b"3", await holds(b"k", b"2", 2), ttl=hour, user=3)
        await holds(b"k", b"3", 3)
        for call in (store.put, store.add, store.replace):
            with pytest.raises(ValueError):
                await call(b"k", b"x", ttl=0)
        await store.put(b"short", b"v", ttl=0.03)
        while await store.exists(b"short"):
            pass
        assert await store.get(b"short") is None
    run(server, work)


def test_a_touch_gives_a_new_time_to_live(server):
    async def work(store):
        await store.put(b"k", b"v", ttl=3600, user=5)
        first = await store.gets(b"k")
        await store.touch(b"k", 3600)  # near enough: it stays as it is
        assert (await store.gets(b"k")).version == first.version
        value = await store.get_touch(b"k", 7200)
        assert value[0] == b"v" and value.ttl == 7200 and value.user == 5
        found = await store.gets(b"k")
        assert found.version == value.version != first.version and 3600 < found.ttl <= 7200
        await store.touch(b"k", None)
        assert (await store.gets(b"k"))[2:] == (None, 5)
        assert (await store.get_touch(b"k", None)).ttl is None
        with pytest.raises(farkv.NotFound):
            await store.touch(b"x", 1)
        with pytest.raises(ValueError):
            await store.touch(b"k", 0)
    run(server, work)


def test_a_touch_goes_on_beside_other_writes(server):
    async def work(store):
        await store.put(b"k", b"0")

        async def write():
            for i in range(200):
                await store.put(b"k", b"%d" % i, user=i)

        writer = asyncio.ensure_future(write())
        while not writer.done():
            value = await store.get_touch(b"k", 3600)
            assert value.data == b"%d" % value.user
        await writer
        await store.touch(b"k", 3600)
        assert (await store.gets(b"k"))[0] == b"199"
    run(server, work)


@pytest.mark.parametrize("depth", [1, 7, 128])
def test_more_requests_than_the_queue_holds(server, depth):
    async def work(store):
        keys = [b"%d" % i for i in range(1000)]
        await store.mput([(k, k * 3) for k in keys])
        assert await store.mget(keys + [b"x"]) == [k * 3 for k in keys] + [None]
    run(server, work, queue_depth=depth)


def test_get_into_writes_to_the_callers_buffer(server):
    async def work(store):
        large = bytes(range(256)) * 4096
        buf = bytearray(len(large))
        await store.put(b"large", large)
        assert await store.get_into(b"large", buf) == len(large) and buf == large
        with pytest.raises(farkv.TooSmall) as found:
            await store.get_into(b"large", bytearray(3))
        assert found.value.needed == len(large)
        with pytest.raises((TypeError, ValueError, BufferError)):
            await store.get_into(b"large", bytes(3))
    run(server, work)


@pytest.mark.rdma
def test_a_cancelled_request_disturbs_no_other(server):
    async def work(store):
        tasks = [asyncio.ensure_future(store.put(b"%d" % i, bytes(10000))) for i in range(100)]
        await asyncio.sleep(0)
        for t in tasks[::2]:
            t.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(r is None for r in results[1::2])
        assert len(await store.get(b"99")) == 10000
    run(server, work)


def test_other_tasks_run_while_requests_wait(server):
    async def work(store):
        ticks = 0
        done = asyncio.Event()

        async def tick():
            nonlocal ticks
            while not done.is_set():
                ticks += 1
                await asyncio.sleep(0)

        ticker = asyncio.ensure_future(tick())
        for i in range(200):
            await store.put(b"%d" % i, b"x")
        done.set()
        await ticker
        assert ticks > 100
    run(server, work)


def test_a_closed_store_tells_its_waiters(server):
    async def main():
        store = await farkv.aio.connect(server.uri)
        waiter = asyncio.ensure_future(store.get(b"k"))
        await asyncio.sleep(0)
        await store.close()
        try:
            await waiter
        except ConnectionAbortedError:
            pass
        await store.close()
        with pytest.raises(ValueError):
            await store.get(b"k")
    asyncio.run(main())


@pytest.mark.rdma
def test_a_killed_server_is_an_error_and_the_next_one_is_found(server):
    async def work(store):
        await store.put(b"k", b"v")
        server.kill(signal.SIGKILL)
        with pytest.raises(farkv.Disconnected) as found:
            while True:
                try:
                    await store.put(b"k", b"w")
                except farkv.OutcomeUnknown:
                    pass  # by RDMA: it was in flight
        assert found.value.detail
        server.start()
        while True:
            try:
                assert await store.get(b"k") is None
                break
            except farkv.Disconnected:
                pass
        await store.put(b"k", b"new")
        assert await store.get(b"k") == b"new"
    run(server, work, op_timeout=20)


def test_a_child_of_fork_is_told_to_connect(server):
    async def work(store):
        pid = os.fork()
        if not pid:
            try:
                store._submit(0, b"k")
            except farkv.Disconnected as e:
                os._exit(0 if "connect()" in e.detail else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        await store.put(b"k", b"v")
        assert await store.get(b"k") == b"v"
    run(server, work)


def test_no_server_is_an_error_of_connect(tmp_path):
    with pytest.raises(ConnectionError):
        asyncio.run(farkv.aio.connect(tmp_path / "none"))
