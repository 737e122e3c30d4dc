"""A private Slurm on one machine, for trying job scripts: munged, slurmctld and N slurmd.

    cluster.py up DIR [--nodes 2]      start it; everything it makes is in DIR
    cluster.py run DIR -- COMMAND      run COMMAND with SLURM_CONF set; returns its exit code
    cluster.py down DIR                end it; also after a crash, and twice

Needs Debian's slurm-wlm and munge (nothing is installed here). All daemons run as the caller, on
loopback, on ports that were free; root is not needed. Each node has $SLURM_TMPDIR, a directory of
its own below DIR, which a task prolog sets as sites do."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from getpass import getuser
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo")
START_LIMIT_S = 60.0
END_LIMIT_S = 10.0
SOCKET_PATH_MAX = 107
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"

CONF = """\
ClusterName=try
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n/spool
SlurmdPidFile={folder}/%n/slurmd.pid
SlurmdLogFile={folder}/%n/slurmd.log
TmpFS={folder}/%n/tmp
TaskProlog={folder}/task_prolog
# No cgroups and no affinity: they need root, and the nodes are one machine.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Nodes offer the CPUs given below, whatever the machine has.
SlurmdParameters=config_overrides
# MPI names what it shares in /dev/shm by the job's number: a killed job of another trial cluster
# may have left that of job 1.
FirstJobId={first_job}
ReturnToService=2
KillWait=10
SlurmdTimeout=20
MessageTimeout=30
"""

# Gives each node a directory as sites do: Slurm adds the line `export ...` on stdout to the task's
# environment.
TASK_PROLOG = """\
#!/bin/sh
echo "export SLURM_TMPDIR={folder}/$SLURMD_NODENAME/tmp"
"""


class ClusterError(Exception):
    """The cluster cannot be started. The message says why, in one line."""


def missing_programs() -> list[str]:
    """Returns the needed programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


def wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Returns whether `condition` became true in time."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def started_at(pid: int) -> str:
    """Returns when a process started, in the kernel's ticks; "" if it does not run.

    With the id this identifies a process, because ids are used again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def free_ports(count: int) -> list[int]:
    """Returns ports of loopback on which no process listens now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class Cluster:
    """The daemons in one directory, which also records them for later commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._record = self.folder / "processes.json"
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which Slurm's commands use this cluster."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        return {**kept, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def up(self, nodes: int) -> None:
        """Starts everything and waits until all nodes are idle. Raises ClusterError if that
        fails."""
        if missing := missing_programs():
            raise ClusterError(f"not installed: {', '.join(missing)} (Debian: slurm-wlm munge)")
        if self._living():
            raise ClusterError(f"{self.folder}: a cluster runs there already")
        self._lay_out([f"node{number}" for number in range(1, nodes + 1)])
        try:
            self._start_all(nodes)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends everything that was started, the nodes first. Only logs stay."""
        living = self._living()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            wait_until(lambda: not self._living(), END_LIMIT_S)
            living = self._living()
        if living:
            raise ClusterError(f"processes that do not end: {living}")
        self._record.unlink(missing_ok=True)

    def run(self, command: Sequence[str]) -> int:
        """Runs a command that uses this cluster. Returns its exit code."""
        return subprocess.run(command, env=self.environ, check=False).returncode

    def _lay_out(self, names: list[str]) -> None:
        for name in names:
            for part in ("spool", "tmp"):
                (self.folder / name / part).mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        (self.folder / "state").mkdir()
        self._write("munge.key", secrets.token_bytes(128), 0o400)
        self._write("task_prolog", TASK_PROLOG.format(folder=self.folder).encode(), 0o755)
        self._write("slurm.conf", self._configuration(names).encode(), 0o644)
        if len(str(self.folder / "munge.socket")) > SOCKET_PATH_MAX:
            raise ClusterError(f"{self.folder}: the path is too long for a socket")

    def _write(self, name: str, content: bytes, mode: int) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    def _configuration(self, names: list[str]) -> str:
        host = socket.gethostname().partition(".")[0]
        ports = free_ports(1 + len(names))
        first_job = 1000 + secrets.randbelow(60_000_000)
        lines = CONF.format(
            host=host, user=getuser(), folder=self.folder, ports=ports, first_job=first_job
        )
        for name, port in zip(names, ports[1:], strict=True):
            address = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            lines += f"NodeName={name} {address} CPUs=8 RealMemory=1000 State=UNKNOWN\n"
        return lines + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"

    def _start_all(self, nodes: int) -> None:
        at = self.folder
        places = {"key-file": "key", "socket": "socket", "pid-file": "pid"}
        places |= {"log-file": "log", "seed-file": "seed"}
        where = [f"--{option}={at}/munge.{end}" for option, end in places.items()]
        # --force, because others may be allowed to write to the directory, as often on trial
        # machines.
        self._start("munged", "--foreground", "--force", "--num-threads=2", *where)
        self._await(lambda: (at / "munge.socket").exists(), "munged")
        self._start("slurmctld", "-D", "-f", f"{at}/slurm.conf")
        for number in range(1, nodes + 1):
            self._start("slurmd", "-D", "-N", f"node{number}", "-f", f"{at}/slurm.conf")
        self._await(lambda: self._idle() == nodes, "the nodes")

    def _start(self, program: str, *arguments: str) -> None:
        """Starts a daemon in a session of its own and records it."""
        with (self.folder / f"{program}.out").open("ab") as output:
            process = subprocess.Popen(
                [shutil.which(program, path=PATH) or program, *arguments],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children.append(process)
        known = {**self._recorded(), str(process.pid): started_at(process.pid)}
        self._record.write_text(json.dumps(known))

    def _recorded(self) -> dict[str, str]:
        try:
            known: dict[str, str] = json.loads(self._record.read_text())
        except FileNotFoundError:
            return {}
        return known

    def _living(self) -> list[int]:
        """Returns the recorded processes that still run, the last started first."""
        for child in self._children:
            child.poll()
        known = self._recorded().items()
        return [int(pid) for pid, start in known if start and started_at(int(pid)) == start][::-1]

    def _idle(self) -> int:
        """Returns how many nodes are idle."""
        command = ["sinfo", "--noheader", "--Node", "--format=%t"]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout.split().count("idle")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        started = len(self._recorded())

        def settled() -> bool:
            return len(self._living()) < started or condition()

        if not wait_until(settled, START_LIMIT_S) or len(self._living()) < started:
            raise ClusterError(f"{what} did not come up; see the logs in {self.folder}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="action", required=True)
    for name in ("up", "down", "run"):
        commands.add_parser(name).add_argument("folder", metavar="DIR", type=Path)
    commands.choices["up"].add_argument("--nodes", type=int, default=2)
    commands.choices["run"].add_argument("command", nargs="+", metavar="-- COMMAND")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    cluster = Cluster(options.folder)
    try:
        if options.action == "run":
            return cluster.run(options.command)
        if options.action == "down":
            cluster.down()
            return 0
        cluster.up(options.nodes)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    print(f"export SLURM_CONF={cluster.environ['SLURM_CONF']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
