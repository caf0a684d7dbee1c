# SPDX-License-Identifier: BSD-3-Clause
"""contrib/Containerfile and contrib/kubernetes against the program, the build and the guides.

images.py SRCDIR KVSERVER KVCLI KEYS
"""
import json
import os
import re
import subprocess
import sys

import yaml

SRCDIR, KVSERVER, KVCLI, KEYS = sys.argv[1:]
RDMA_RECIPE = {"--device /dev/infiniband", "--ulimit memlock=-1", "--network host"}
failures = 0


def check(holds, text):
    global failures
    if not holds:
        failures += 1
        print("FAIL:", text, flush=True)


def read(name):
    with open(f"{SRCDIR}/{name}") as f:
        return f.read()


def output(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def check_options(program, args, where):
    """They exist, and kvserver takes their values."""
    known = set(re.findall(r"--[a-z][a-z0-9-]*", output(program, "--help")))
    for option in args:
        if option.startswith("--"):
            check(option in known, f"{where}: {os.path.basename(program)} has no {option}")
    if program != KVSERVER or "rdma" in args:  # a build may be without RDMA
        return
    p = subprocess.run([program, *args, "--check-config"], capture_output=True, text=True)
    check(p.returncode == 0, f"{where}: {p.stderr}")


# ---- Containerfile


def instructions(text):
    """(word, rest) of each."""
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.split("\n") if line.strip()]


def apt_packages(stage):
    for word, rest in stage:
        m = re.search(r"apt-get install -y --no-install-recommends ([^&]*)", rest)
        if word == "RUN" and m:
            return m[1].split()
    return []


def build_packages():
    return re.search(r"^build_packages=\(([^)]*)\)", read("quickstart"), re.M)[1].split()


def check_build(stage):
    check(sorted(apt_packages(stage)) == sorted(build_packages()),
          "the build stage's packages are not build_packages of quickstart: "
          f"{set(apt_packages(stage)) ^ set(build_packages())}")
    known = set(re.findall(r"AC_ARG_(?:WITH|ENABLE)\(\[([a-z]+)\]", read("m4/farkv.m4") + read("configure.ac")))
    for _, rest in stage:
        for option in re.findall(r"--(?:with|enable|without|disable)-([a-z]+)", rest):
            check(option in known, f"configure has no option for {option}")


def soname():
    """libtool's: current - age."""
    current, _, age = map(int, re.search(r"-version-info (\d+):(\d+):(\d+)", read("client/Makefile.inc")).groups())
    return f"libfarkv.so.{current - age}"


def check_libraries(packages, release):
    """Where this host is of the same release, its packages are those of the image."""
    with open("/etc/os-release") as f:
        if f"VERSION_CODENAME={release}\n" not in f.read():
            print(f"SKIP: the libraries' packages: this host is no Debian {release}")
            return
    # What the libraries need comes with them.
    direct = {name for program in (KVSERVER, KVCLI)
              for name in re.findall(r"NEEDED +(\S+)", output("objdump", "-p", program))}
    paths = {os.path.realpath(path) for program in (KVSERVER, KVCLI)
             for name, path in re.findall(r"(\S+) => (/\S+)", output("ldd", program))
             if name in direct and "libfarkv" not in name}
    # Of a file below /usr dpkg may know the name that it had outside.
    names = paths | {path.removeprefix("/usr") for path in paths}
    owners = {line.split(":")[0] for line in output("dpkg", "-S", *sorted(names)).splitlines()}
    lacking = owners - set(packages) - {"libc6", "libgcc-s1"}  # every Debian has those
    check(len(owners) > 1 and not lacking, f"the image lacks {lacking} of {owners}")


def check_containerfile():
    text = read("contrib/Containerfile")
    all_of_it = instructions(text)
    begins = [i for i, (word, _) in enumerate(all_of_it) if word == "FROM"]
    check(len(begins) == 2, "two stages")
    build, final = all_of_it[:begins[1]], all_of_it[begins[1]:]
    release = re.search(r"debian:(\w+) AS build", build[0][1])[1]
    check(final[0][1] == f"docker.io/library/debian:{release}-slim", "both stages are of one release")
    check_build(build)
    check_libraries(apt_packages(final), release)

    copied = " ".join(rest for word, rest in final if word == "COPY").split()
    programs = re.findall(r"/installed/usr/local/bin/(\w+)", " ".join(copied))
    check(programs == ["kvserver", "kvcli", "kvgate"], f"programs: {programs}")
    check(f"/installed/usr/local/lib/{soname()}" in copied, f"{soname()} is not copied")
    words = dict(final)
    check(json.loads(words["ENTRYPOINT"]) == ["/usr/local/bin/kvserver"], "ENTRYPOINT")
    check_options(KVSERVER, json.loads(words["CMD"]), "CMD")
    user, group = words["USER"].split(":")
    made = " ".join(rest for word, rest in final if word == "RUN")
    check(f"useradd --uid {user} --gid {group}" in made and int(user) > 0, "USER is the one that is made")

    head = re.sub(r" \\\n#\s*", " ", text[:text.index("FROM")])
    runs = re.findall(r"podman run (.*?) farkv (.*)", head)
    check(len(runs) == 2, "two commands in the head")
    for engine, args in runs:
        check_options(KVSERVER, args.split(), "a command in the head")
        if "rdma" in args:
            check(all(part in engine for part in RDMA_RECIPE), f"not the recipe: {engine}")
    recipe = read("doc/rdma.md").split("\n## Containers\n")[1]
    check(all(part in recipe for part in RDMA_RECIPE), "doc/rdma.md has another recipe")
    return user


# ---- Kubernetes

UNITS = {"m": 2**20, "g": 2**30, "Mi": 2**20, "Gi": 2**30}


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * UNITS[unit]


def value_of(args, option):
    return args[args.index(option) + 1] if option in args else None


def check_container(c, spec, where):
    program, args = KVSERVER, c.get("args", [])
    if "command" in c:
        program = {"/usr/local/bin/kvcli": KVCLI}[c["command"][0]]
        args = c["command"][1:] + args
    check_options(program, args, where)
    check(c["image"] == "localhost/farkv:latest", f"{where}: image")
    volumes = {v["name"] for v in spec["volumes"]}
    mounts = {m["name"]: m["mountPath"] for m in c["volumeMounts"]}
    check(set(mounts) <= volumes, f"{where}: no volume for {set(mounts) - volumes}")
    paths = [value_of(args, o) for o in ("--socket", "--keys")]
    paths += [e["value"].removeprefix("shm://") for e in c.get("env", []) if e["name"] == "FARKV_URI"]
    for path in filter(None, paths):
        check(os.path.dirname(path) in mounts.values(), f"{where}: {path} is in no volume")
    check(c["securityContext"]["capabilities"]["drop"] == ["ALL"], f"{where}: capabilities")
    check(c["securityContext"]["allowPrivilegeEscalation"] is False, f"{where}: escalation")
    if program != KVSERVER:
        return
    limit, memory = size(c["resources"]["limits"]["memory"]), size(value_of(args, "--memory"))
    check(limit >= memory + 256 * 2**20, f"{where}: the memory limit leaves nothing beside --memory")
    port = int(value_of(args, "--metrics").split(":")[1])
    for probe in "readinessProbe", "livenessProbe":
        get = c.get(probe, {}).get("httpGet")
        if get:
            named = {p["name"]: p["containerPort"] for p in c["ports"]}
            check(f'"{get["path"]}"' in read("server/loop/metrics.c"), f"{where}: {get['path']}")
            check(named.get(get["port"], get["port"]) == port, f"{where}: port of {probe}")


def check_shared(spec, user):
    context = spec["securityContext"]
    check(context["runAsNonRoot"] and context["runAsUser"] == context["fsGroup"] == int(user),
          "shared memory: the user is not the image's")
    for c in spec["containers"]:
        check("add" not in c["securityContext"]["capabilities"], "shared memory needs no capability")
    check(not any(spec.get(k) for k in ("hostNetwork", "hostIPC", "hostPID")), "nor the host's namespaces")
    sockets = {value_of(c.get("args", []), "--socket") for c in spec["containers"]} - {None}
    uris = {e["value"] for c in spec["containers"] for e in c.get("env", [])}
    check(uris == {"shm://" + s for s in sockets}, "the client's address is not the socket")


def check_rdma(spec):
    c = spec["containers"][0]
    check(spec["hostNetwork"] and spec["dnsPolicy"] == "ClusterFirstWithHostNet", "RDMA: the host's network")
    check(c["resources"]["limits"]["rdma/hca"] == 1, "RDMA: a device")
    check(c["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"] and
          c["securityContext"]["runAsUser"] == 0, "RDMA: locked memory")
    keys = {v["name"]: v for v in spec["volumes"]}["keys"]["secret"]
    check(keys["defaultMode"] == 0o400, "RDMA: kvserver refuses a key file that others may read")
    default = re.search(r'VERBS_PORT "(\d+)"', read("common/rdma/verbs.h"))[1]
    check(value_of(c["args"], "--listen") == f":{default}", "RDMA: the port is not the default")


def check_kubernetes(user):
    docs = list(yaml.safe_load_all(read("contrib/kubernetes/kvserver.yaml")))
    pods = {}
    for doc in docs:
        if doc["kind"] == "Service":
            continue
        template = doc["spec"]["template"]
        labels = template["metadata"]["labels"]
        check(doc["spec"]["selector"]["matchLabels"] == labels, f"{doc['kind']}: labels")
        pods[labels["app"]] = template["spec"]
        for c in template["spec"]["containers"]:
            check_container(c, template["spec"], f"{doc['kind']}, {c['name']}")
    check(sorted(pods) == ["farkv", "farkv-rdma"], f"pods: {sorted(pods)}")
    for doc in docs:
        if doc["kind"] != "Service":
            continue
        ports = [p["containerPort"] for c in pods[doc["spec"]["selector"]["app"]]["containers"]
                 for p in c.get("ports", [])]
        for p in doc["spec"]["ports"]:
            check(p["port"] in ports, f"{doc['metadata']['name']}: no container has port {p['port']}")
    check_shared(pods["farkv"], user)
    check_rdma(pods["farkv-rdma"])


check_kubernetes(check_containerfile())
sys.exit(failures > 0)
