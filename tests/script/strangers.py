# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Python clients on kvgate, for strangers.sh: strangers.py CLIENT RESP MEMCACHED"""
import sys


def redis(port, _):
    import redis as lib

    for decode in False, True:
        r = lib.Redis(port=int(port), decode_responses=decode)
        text = (lambda s: s) if decode else (lambda s: s.encode())
        r.flushall()
        assert r.ping() and r.set("a", "1", ex=100) and r.get("a") == text("1")
        assert 99 <= r.ttl("a") <= 100 and r.incr("n", 5) == 5 and r.exists("a", "x") == 1
        with r.pipeline(transaction=False) as p:
            p.set("b", "2").get("b").mget("a", "b", "none").delete("a")
            assert p.execute() == [True, text("2"), [text("1"), text("2"), None], 1]
        assert sorted(r.scan_iter(match="*")) == [text("b"), text("n")]
        assert r.info()["role"] == "master" and r.client_setname("me") and r.client_list()
        try:
            r.rename("a", "b")
            raise AssertionError("rename")
        except lib.ResponseError as e:
            assert "refused" in str(e)


def pymemcache(_, port):
    from pymemcache.client.base import Client

    m = Client(("127.0.0.1", int(port)))
    m.flush_all()
    assert m.set("a", b"1", noreply=False) and m.get("a") == b"1"
    value, cas = m.gets("a")
    assert value == b"1" and m.cas("a", b"2", cas, noreply=False)
    assert m.cas("a", b"3", cas, noreply=False) is False
    assert m.incr("a", 5) == 7 and m.get_many(["a", "b"]) == {"a": b"7"}
    assert m.set_many({"x": b"1", "y": b"2"}, noreply=False) == []
    assert m.touch("x", 10, noreply=False) and m.delete("x", noreply=False)
    assert m.stats()[b"version"] and m.version()


def nutcracker(path, _):
    """A proxy asks two servers for the keys of one get."""
    from pymemcache.client.base import Client

    m = Client(path)
    values = {"nut:%d" % i: b"%d" % i for i in range(1, 201)}
    assert m.set_many(values, noreply=False) == []
    assert m.get_many(list(values)) == values
    assert m.incr("nut:7", 5) == 12 and m.delete("nut:7", noreply=False)
    assert m.get("nut:7") is None


globals()[sys.argv[1]](*sys.argv[2:])
