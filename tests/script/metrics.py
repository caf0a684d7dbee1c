# SPDX-License-Identifier: BSD-3-Clause
"""What kvserver --metrics answers.

metrics.py HOST:PORT get PATH              print the body; the status is the exit status - 200, up to 255
metrics.py HOST:PORT stats KVCLI           /metrics has the figures of kvcli stats --json
metrics.py HOST:PORT hostile               requests that are cut, long, many, slow or no HTTP
metrics.py HOST:PORT uses FILE...          /metrics has the names and labels in FILEs
metrics.py : dashboard FILE                FILE is a dashboard for Grafana; prints its expressions
metrics.py : client FILE                   FILE is the text of farkv_metrics()
"""
import json
import re
import socket
import subprocess
import sys

HOST, PORT = sys.argv[1].rsplit(":", 1)
AT = (HOST.strip("[]"), int(PORT or 0))


def talk(text, shut=False):
    """Everything that the server answers to these bytes."""
    with socket.create_connection(AT) as s:
        s.sendall(text)
        if shut:
            s.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            some = s.recv(65536)
            if not some:
                return answer
            answer += some


def get(path, method="GET"):
    head, _, body = talk(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    if method != "HEAD" and int(fields["Content-Length"]) != len(body):
        sys.exit(f"{path}: Content-Length {fields['Content-Length']}, the body has {len(body)}")
    return int(lines[0].split()[1]), fields, body.decode()


def parse(text):
    """{name: {labels: value}}, and the HELP and TYPE of each family."""
    values, helps, types, family = {}, {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family, helps_text = line[7:].split(" ", 1)
            if family in helps:
                sys.exit(f"{family} comes twice")
            helps[family] = helps_text
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            if name != family:
                sys.exit(f"TYPE of {name} after the HELP of {family}")
            types[name] = kind
        else:
            m = re.fullmatch(r"([a-z_]+)(\{[^}]*\})? (\d+(\.\d+)?)", line)
            if not m:
                sys.exit(f"no sample: {line}")
            name = m[1]
            if types.get(family) == "histogram":
                name = re.sub("_(bucket|sum|count)$", "", name)
            if name != family:
                sys.exit(f"a sample of {m[1]} in the family {family}")
            labels = m[2] or ""
            if labels in values.setdefault(m[1], {}):
                sys.exit(f"twice: {line}")
            values[m[1]][labels] = float(m[3])
    return values, helps, types


def histogram(values, name):
    """The buckets of each of its series ascend, and the last one is the count."""
    for labels, n in values[name + "_count"].items():
        buckets = {k: v for k, v in values[name + "_bucket"].items() if k.startswith(labels[:-1] + ",")}
        bounds = [float(re.search('le="([^"]*)"', k)[1]) for k in buckets]
        found = list(buckets.values())
        if bounds != sorted(set(bounds)) or bounds[-1] != float("inf"):
            sys.exit(f"{name}{labels}: {bounds}")
        if found != sorted(found) or found[-1] != n:
            sys.exit(f"{name}{labels}: {found}, {n}")
        if values[name + "_sum"][labels] < 0 or (n > 0) != (values[name + "_sum"][labels] > 0):
            sys.exit(f"{name}{labels}: the sum")


def client(path):
    with open(path) as f:
        values, helps, types = parse(f.read())
    histogram(values, "farkv_client_latency_seconds")
    for name in helps:
        if not name.startswith("farkv_client_") or not helps[name].endswith("."):
            sys.exit(f"HELP of {name}: {helps[name]}")
        if (types[name] == "counter") != name.endswith("_total"):
            sys.exit(f"{name} is a {types[name]}")
    for labels, n in values["farkv_client_latency_seconds_count"].items():
        print(labels, int(n), int(values["farkv_client_errors_total"][labels]))


# Figures that go on by themselves or by asking.
MOVING = {"uptime_ms", "cpu_ns", "sessions", "sessions_total", "grants", "hints", "blocks_granted", "blocks_free",
          "blocks_held", "blocks_deferred", "free_bytes", "barrier_waits", "barriers", "sweeps", "sweep_ns"}


def shown(kvcli):
    return json.loads(subprocess.check_output([kvcli, "--json", "stats"]))


def settled(kvcli):
    """The figures of kvcli stats and of /metrics at a time when those that are compared stand still."""
    while True:
        want = shown(kvcli)
        metrics = parse(get("/metrics")[2])
        later = shown(kvcli)
        if all(later[field] == value for field, value in want.items() if field not in MOVING):
            return want, metrics


def stats(kvcli):
    want, (values, helps, types) = settled(kvcli)
    have = {}
    for name, text in helps.items():
        m = re.search(r"\(kvcli stats --json: (\w+)\)", text)
        if m:
            have[m[1]] = name
    # One name for three of them.
    calls = values["memcached_commands_total"]
    have.update(hits='{command="get",status="hit"}', misses='{command="get",status="miss"}',
                sets='{command="set",status="hit"}')
    for field, value in want.items():
        if field == "sizes":
            continue
        if field not in have:
            sys.exit(f"{field} of kvcli stats is not exported")
        if field in MOVING:
            continue
        name = have[field]
        got = calls[name] if name.startswith("{") else values[name][""]
        ratio = 1000 if field.endswith(("_ms", "_permille")) else 10**9 if "_ns" in field else 1
        if abs(got * ratio - value) > 1e-6 * max(value, 1):
            sys.exit(f"{field}: {value}, exported: {got}")
    for row in want["sizes"]:
        label = '{block_bytes="%d"}' % row["block_bytes"]
        for field, name in (("evictions", "farkv_size_evictions_total"), ("expired", "farkv_size_expired_total")):
            if values.get(name, {}).get(label, 0) != row[field]:
                sys.exit(f"{name}{label} is not {row[field]}")
    for name, kind in types.items():
        if (kind == "counter") != name.endswith("_total"):
            sys.exit(f"{name} is a {kind}")
    histogram(values, "farkv_pause_seconds")
    if not sum(values["farkv_pause_seconds_count"].values()):
        sys.exit("no pauses are counted")
    print(len(values))


def status(answer):
    m = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(m[1]) if m else answer


def hostile():
    for text, want in ((b"GET /healthz HTTP/1.0\r\n\r\n", 200), (b"GET /healthz HTTP/1.1\n\n", 200),
                       (b"GET /healthz?a=b HTTP/1.1\r\n\r\n", 200),
                       (b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 8000 + b"\r\n\r\n", 200),
                       (b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 9000 + b"\r\n\r\n", 431),
                       (b"x" * 60000, 431), (b"\r\n\r\n", 400), (b"GET /\r\n\r\n", 400),
                       (b"GET  HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/2.0\r\n\r\n", 400),
                       (b"\x16\x03\x01\x02\x00\x01\n\n", 400), (b"GET /\0 HTTP/1.1\r\n\r\n", 404),
                       (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n", 404),
                       (b"GET /.. HTTP/1.1\r\n\r\n", 404), (b"get / HTTP/1.1\r\n\r\n", 405),
                       (b"POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", 405)):
        for shut in (False, True):
            got = status(talk(text, shut))
            if got != want:
                sys.exit(f"{text[:40]}: {got}, expected {want}")
    if talk(b"GET /healthz HTTP/1.1\r\n", shut=True):
        sys.exit("half a request has an answer")
    code, fields, body = get("/metrics", "HEAD")
    if code != 200 or body or int(fields["Content-Length"]) < 1000:
        sys.exit("HEAD /metrics")
    if get("/metrics", "DELETE")[1].get("Allow") != "GET, HEAD":
        sys.exit("405 without Allow")
    # More than are served at once, none of which says anything; the oldest have to leave.
    slow = [socket.create_connection(AT) for _ in range(100)]
    for _ in range(3):
        if get("/readyz")[0] != 200:
            sys.exit("slow clients keep others out")
    # At once, before its time is over.
    slow[0].setblocking(False)
    try:
        slow[0].recv(1)
    except BlockingIOError:
        sys.exit("the oldest connection is still open")
    # One that never reads what it asked for.
    deaf = socket.create_connection(AT)
    deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    for _ in range(40):
        if get("/metrics")[0] != 200:
            sys.exit("a deaf client keeps others out")
    # In pieces.
    with socket.create_connection(AT) as s:
        for byte in b"GET /healthz HTTP/1.1\r\n\r\n":
            s.sendall(bytes([byte]))
        if status(s.recv(1000)) != 200:
            sys.exit("a request in pieces")


def uses(paths):
    """Names and labels in the files' expressions are exported."""
    values, _, _ = parse(get("/metrics")[2])
    texts = {name: "".join(labels) for name, labels in values.items()}
    used = 0
    for path in paths:
        with open(path) as f:
            text = f.read().replace('\\"', '"')
        for name, labels in re.findall(r"\b((?:farkv|memcached)_[a-z_]+)\b(\{[^}]*\})?", text):
            used += 1
            if name not in values:
                sys.exit(f"{path}: {name} is not exported")
            for label, value in re.findall(r'(\w+)="([^"$]*)"', labels):
                if f'{label}="{value}"' not in texts[name]:
                    sys.exit(f"{path}: {name} has no {label}={value}")
    print(used)


PANEL = {"id": int, "title": str, "type": str, "description": str, "datasource": dict, "gridPos": dict,
         "fieldConfig": dict, "options": dict, "targets": list}


def dashboard(path):
    """The parts that Grafana needs are there and fit each other."""
    with open(path) as f:
        d = json.load(f)
    for key, kind in {"uid": str, "title": str, "schemaVersion": int, "panels": list, "templating": dict,
                      "time": dict, "refresh": str}.items():
        if not isinstance(d.get(key), kind):
            sys.exit(f"{path}: {key} is no {kind.__name__}")
    variables = {v["name"] for v in d["templating"]["list"]} | {"__rate_interval"}
    ids, places = set(), set()
    for p in d["panels"]:
        if {k: type(v) for k, v in p.items()} != PANEL or not p["targets"]:
            sys.exit(f"{path}: panel {p.get('title')}: {sorted(p)}")
        at = p["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                if x > 23 or (x, y) in places:
                    sys.exit(f"{path}: panel {p['title']} lies on another one, or outside")
                places.add((x, y))
        if p["id"] in ids or p["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
            sys.exit(f"{path}: panel {p['title']}: id or datasource")
        ids.add(p["id"])
        for t in p["targets"]:
            unknown = set(re.findall(r"\$\{?(\w+)", t["expr"])) - variables
            if unknown or t["expr"].count("(") != t["expr"].count(")"):
                sys.exit(f"{path}: panel {p['title']}: {t['expr']}")
            print(re.sub(r"\$__rate_interval", "5m", t["expr"]))
    if len(ids) < 10:
        sys.exit(f"{path}: only {len(ids)} panels")


if sys.argv[2] == "get":
    code, _, body = get(sys.argv[3])
    print(body, end="")
    sys.exit(min(code - 200, 255) if code >= 200 else 255)
elif sys.argv[2] == "stats":
    stats(sys.argv[3])
elif sys.argv[2] == "uses":
    uses(sys.argv[3:])
elif sys.argv[2] == "client":
    client(sys.argv[3])
elif sys.argv[2] == "dashboard":
    dashboard(sys.argv[3])
else:
    hostile()
