# SPDX-License-Identifier: BSD-3-Clause
"""farkv.Store: operations, buffers, errors."""
import array
import collections.abc
import datetime
import mmap
import os

import pytest

import farkv


@pytest.mark.rdma
def test_a_store_is_a_mutable_mapping(store):
    assert isinstance(store, collections.abc.MutableMapping)
    store[b"a"] = b"1"
    store.update({b"b": b"2", b"c": b""})
    assert store[b"a"] == b"1" and b"b" in store and b"x" not in store
    assert len(store) == 3 and sorted(store) == [b"a", b"b", b"c"]
    assert dict(store.items()) == {b"a": b"1", b"b": b"2", b"c": b""}
    assert store.pop(b"a") == b"1" and store.pop(b"a", None) is None
    assert store.setdefault(b"b", b"9") == b"2" and store.setdefault(b"d", b"4") == b"4"
    assert store[b"d"] == b"4" and store
    del store[b"b"]
    assert store.get(b"b") is None and store.get(b"b", b"no") == b"no"
    store.clear()
    assert len(store) == 0 and list(store) == [] and store


def test_errors_have_code_and_detail_and_are_pythons_own(store):
    with pytest.raises(KeyError) as found:
        store[b"none"]
    error = found.value
    assert isinstance(error, farkv.NotFound) and error.code == -1000
    assert str(error) == error.detail == "no value is stored under the key"
    for call in (lambda: store.delete(b"none"), lambda: store.replace(b"none", b""),
                 lambda: store.gets(b"none"), lambda: store.append(b"none", b"x"),
                 lambda: store.prepend(b"none", b"x"), lambda: store.incr(b"none"),
                 lambda: store.cas(b"none", b"", 1),
                 lambda: store.get_into(b"none", bytearray(1))):
        with pytest.raises(farkv.NotFound):
            call()
    with pytest.raises(ValueError) as found:
        store.put(b"", b"x")
    assert isinstance(found.value, farkv.Invalid) and len(found.value.detail) > 10
    with pytest.raises(farkv.TooLarge):
        store.put(b"k" * 65536, b"x")
    with pytest.raises(farkv.NoSpace):
        store.put(b"k", bytes(30 << 20)), store.put(b"l", bytes(30 << 20))
        for i in range(8):
            store.put(b"%d" % i, bytes(30 << 20))
    for call in (lambda: store["text"], lambda: store.put(b"k", "text"),
                 lambda: store.mget(["text"]), lambda: store.get_into(b"k", 5)):
        with pytest.raises(TypeError, match="another buffer of bytes, not "):
            call()


def test_a_bad_address_is_an_error_at_once(tmp_path):
    with pytest.raises(ConnectionError):
        farkv.Store(tmp_path / "none")
    with pytest.raises(farkv.Unusable):
        farkv.Store("what://")
    for limit in (0, -1, float("nan")):
        with pytest.raises(ValueError):
            farkv.Store(tmp_path / "none", op_timeout=limit)


def test_writes_by_condition(store):
    store.add(b"k", b"1")
    with pytest.raises(farkv.Exists):
        store.add(b"k", b"2")
    data, version, ttl, user = store.gets(b"k")
    assert data == b"1" and ttl is None and user == 0
    new = store.cas(b"k", b"2", version)
    assert new != version and store.gets(b"k") == (b"2", new, None, 0)
    with pytest.raises(farkv.VersionMismatch):
        store.delete(b"k", version)
    store.delete(b"k", new)
    with pytest.raises(farkv.NotFound):
        store.delete(b"k", new)
    store.put(b"k", b"2")
    new = store.gets(b"k").version
    with pytest.raises(farkv.VersionMismatch):
        store.cas(b"k", b"3", version)
    store.replace(b"k", b"4")
    store.append(b"k", b"5")
    store.prepend(b"k", b"3")
    assert store[b"k"] == b"345"


@pytest.mark.parametrize("ttl", [3600, 3600.0, datetime.timedelta(hours=1)])
def test_every_write_gives_a_time_to_live_and_a_number(store, ttl):
    def holds(data, user):
        value = store.gets(b"k")
        assert value.data == data and value.user == user and 60 < value.ttl <= 3600
        return value.version

    store.put(b"k", b"1", ttl=ttl, user=1)
    holds(b"1", 1)
    store.replace(b"k", b"2", ttl=ttl, user=2**32 - 1)
    store.cas(b"k", b"3", holds(b"2", 2**32 - 1), ttl=ttl, user=3)
    holds(b"3", 3)
    store.append(b"k", b"4")  # keeps both
    holds(b"34", 3)
    with pytest.raises(farkv.Exists):
        store.add(b"k", b"5", ttl=ttl)
    store.put(b"k", b"6", user=6)
    assert store.gets(b"k")[2:] == (None, 6) and store.ttl(b"k") is None
    del store[b"k"]
    with pytest.raises(farkv.NotFound):
        store.replace(b"k", b"7", ttl=ttl)
    store.add(b"k", bytearray(b"8"), ttl=ttl)
    holds(b"8", 0)
    store[b"k"] = b"9"
    assert store.gets(b"k")[2:] == (None, 0)


def test_a_touch_gives_a_new_time_to_live(store):
    store.put(b"k", b"v", ttl=3600, user=7)
    store.touch(b"k", 7200)
    assert 3600 < store.ttl(b"k") <= 7200
    value = store.get_touch(b"k", datetime.timedelta(hours=3))
    assert value.data == b"v" and value.user == 7 and 7200 < value.ttl <= 10800
    assert value.version == store.gets(b"k").version and store.ttl(b"k") > 7200
    store.touch(b"k", None)
    assert store.ttl(b"k") is None and store.get_touch(b"k", None).ttl is None
    assert store.incr(b"n", initial=7, ttl=3600) == 7 and store.incr(b"n") == 8
    assert 60 < store.ttl(b"n") <= 3600
    store.decr(b"m", initial=1, ttl=3600)
    assert 60 < store.ttl(b"m") <= 3600
    store.mput({b"a": b"1", b"b": b"2"}, ttl=3600, user=5)
    for key in b"a", b"b":
        assert 60 < store.gets(key).ttl <= 3600 and store.gets(key).user == 5
    for call in (lambda: store.ttl(b"x"), lambda: store.touch(b"x", 1),
                 lambda: store.get_touch(b"x", 1)):
        with pytest.raises(farkv.NotFound):
            call()


def test_a_value_that_has_expired_is_absent(store):
    store.put(b"k", b"v", ttl=0.03)
    while b"k" in store:
        pass
    assert store.get(b"k") is None and len(store) == 0
    store.add(b"k", b"w", ttl=datetime.timedelta(microseconds=1))  # at least a millisecond
    with pytest.raises(farkv.NotFound):
        while store.ttl(b"k") is not None:
            pass
    with pytest.raises(farkv.NotFound):
        store.incr(b"k")


def test_a_wrong_time_to_live_or_number_writes_nothing(store):
    store[b"k"] = b"v"
    for ttl in (0, -1, float("nan"), float("inf"), 2**31, datetime.timedelta(0)):
        for call in (lambda: store.put(b"k", b"w", ttl=ttl), lambda: store.touch(b"k", ttl),
                     lambda: store.incr(b"n", initial=1, ttl=ttl),
                     lambda: store.get_touch(b"k", ttl)):
            with pytest.raises(ValueError, match="at most 68 years"):
                call()
    store.put(b"long", b"v", ttl=2**31 - 1)
    assert store.ttl(b"long") > 67 * 365 * 86400
    for user in (-1, 2**32):
        with pytest.raises(OverflowError):
            store.put(b"k", b"w", user=user)
    with pytest.raises(TypeError):
        store.put(b"k", b"w", ttl="10")
    with pytest.raises(ValueError, match="needs `initial`"):
        store.incr(b"k", ttl=1)
    assert store.gets(b"k")[::2] == (b"v", None) and b"n" not in store


def test_numbers_are_counted(store):
    assert store.incr(b"n", 5, initial=40) == 40 and store.incr(b"n", 5, initial=40) == 45
    assert store.incr(b"n") == 46 and store.decr(b"n", 100) == 0 and store[b"n"] == b"0"
    store[b"t"] = b"x"
    with pytest.raises(farkv.Invalid):
        store.incr(b"t")
    for number in (-1, 2**64):
        for call in (lambda: store.incr(b"n", number), lambda: store.decr(b"n", number),
                     lambda: store.incr(b"new", initial=number)):
            with pytest.raises(OverflowError, match="is a number from 0 to 2"):
                call()
    with pytest.raises(TypeError):
        store.incr(b"n", 1.5)
    assert store[b"n"] == b"0" and b"new" not in store


@pytest.mark.rdma
def test_batches_keep_the_order_of_their_keys(store):
    keys = [b"%d" % i for i in range(300)]
    store.mput({k: k * 2 for k in keys[::2]})
    store.mput((bytearray(k), memoryview(k)) for k in keys[2::6])
    want = [None if i % 2 else k if i % 6 == 2 else k * 2 for i, k in enumerate(keys)]
    assert store.mget(keys) == want
    assert store.mexists(keys) == [w is not None for w in want]
    assert store.prefix(keys) == 1 and store.prefix(keys[::2]) == 150
    assert store.mget([]) == [] and store.mexists([]) == [] and store.prefix([]) == 0
    assert store.exists(b"0") and not store.exists(b"1")


def test_any_buffer_is_a_key_or_a_value(store):
    for kind in (bytes, bytearray, memoryview, lambda b: array.array("B", b)):
        store.put(kind(b"key"), kind(b"value"))
        assert store[kind(b"key")] == b"value" and store.get(kind(b"key")) == b"value"
        store.delete(kind(b"key"))
    store[b"wide"] = array.array("I", [1, 2])
    assert len(store[b"wide"]) == 8
    with pytest.raises((TypeError, BufferError, ValueError)):
        store[b"gaps"] = memoryview(b"abcdef")[::2]


@pytest.mark.rdma
def test_get_into_writes_to_the_callers_buffer(store):
    large = bytes(range(256)) * 8192
    store[b"large"] = large
    with mmap.mmap(-1, len(large) + 4096) as area:
        with memoryview(area) as whole, whole[4096:] as rest:
            assert store.get_into(b"large", rest) == len(large) and rest == large
            store.put(b"again", rest)
    assert store[b"again"] == large
    buf = bytearray(10)
    store[b"k"] = b"abc"
    assert store.get_into(b"k", buf) == 3 and buf[:3] == b"abc"
    with pytest.raises(farkv.TooSmall) as found:
        store.get_into(b"large", buf)
    assert found.value.needed == len(large)
    with pytest.raises((TypeError, ValueError, BufferError)):
        store.get_into(b"k", bytes(10))


@pytest.mark.rdma
def test_a_scan_lists_each_key_once_while_the_loop_writes(store):
    keys = {b"%d" % i for i in range(5000)}
    store.mput((k, k) for k in keys)
    seen = []
    for item in store.scan():
        seen.append(item.key)
        assert item.value_len == len(item.key) and item.version
        if len(seen) % 2:
            del store[item.key]
    assert len(seen) == 5000 and set(seen) == keys and len(store) == 2500


def test_the_server_and_the_handle_tell_of_themselves(store):
    store[b"k"] = b"v"
    assert store.ping() > 0
    assert [(s["name"], s["partitions"], s["epoch"]) for s in store.servers()] == [("", 4096, 0)]
    assert [(s["follower"], s["moving"]) for s in store.servers()] == [("", 0)]
    with pytest.raises(farkv.Error) as none_follows:
        store.wait_followers(1)
    assert none_follows.value.code == -1203  # FARKV_ENOTSUP
    assert (store.stats()["followers"], store.stats()["follower_lag_ms"]) == (0, 0)
    assert store.stats()["sessions"] == 1 and store.stats()["region_bytes"] >= 128 << 20
    assert "round_trips" in store.counters() and farkv.__version__.count(".") == 2


@pytest.mark.rdma
def test_registered_memory_receives_and_sends_values(store):
    area = bytearray(64 * 4096)
    store.register(area)
    with pytest.raises(ValueError):
        store.register(area)
    halves = memoryview(area)[:8192], memoryview(area)[8192:16384]
    store.mput([(b"a", b"a" * 8192), (b"b", b"b" * 8192), (b"long", b"l" * 9000)])
    assert store.mget_into([b"a", b"b"], halves) == [8192, 8192]
    assert area[:16384] == b"a" * 8192 + b"b" * 8192
    assert store.mget_into([b"none", b"long"], halves) == [None, None]
    store.put(b"c", memoryview(area)[4096:12288])
    assert store[b"c"] == area[4096:12288]
    store.unregister(area)
    with pytest.raises(ValueError):
        store.unregister(area)
    assert store.get_into(b"a", area) == 8192
    del halves
    area.append(1)  # nothing holds it any more
    with pytest.raises(ValueError):
        store.mget_into([b"a"], [])


@pytest.mark.skipif(os.environ.get("FARKV_TEST_TRANSPORT") == "rdma",
                    reason="values are borrowed over shared memory alone")
def test_a_borrowed_value_is_read_in_place(store):
    store[b"k"] = b"value"
    with store.borrow(b"k") as view:
        assert view == b"value" and view.readonly
    with pytest.raises(ValueError):
        view[0]
    with pytest.raises(farkv.NotFound):
        with store.borrow(b"none"):
            pass
    with pytest.raises(ZeroDivisionError):
        with store.borrow(b"k") as view:
            1 / 0
