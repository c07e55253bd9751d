"""TLS to a real server with a certificate authority of its own, and what a password may never be seen in."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import servers
from apps import job
from cluster import Cluster
from daemon import Daemon, command, environment, pyworkers
from rabbit import PORTS, RabbitServer
from servers import RedisServer, do_without, free_port
from waiting import eventually

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.redirects import ClusterConnections
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnreachable, ConfigError

PASSWORD = "sesame-open-0451"
JOBS = """
    import goworkers_py as workers

    @workers.job("Tell", queue="q")
    def tell(text):
        print("told", text, flush=True)
"""


class Certificates:
    """Two authorities that do not know each other; the server's certificate is for `localhost`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._make("ours", "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        self._make("other", "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        self._make("server", "subjectAltName=DNS:localhost", "basicConstraints=critical,CA:FALSE", signer="ours")
        self._make("client", "basicConstraints=critical,CA:FALSE", signer="ours")
        self._make("stranger", "basicConstraints=critical,CA:FALSE", signer="other")

    def of(self, name: str) -> Path:
        return self._directory / f"{name}.crt"

    def key_of(self, name: str) -> Path:
        return self._directory / f"{name}.key"

    def _make(self, name: str, *extensions: str, signer: str = "") -> None:
        arguments = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        arguments += ["-keyout", str(self.key_of(name)), "-out", str(self.of(name)), "-subj", f"/CN={name} of a test"]
        for extension in extensions:
            arguments += ["-addext", extension]
        if signer:
            arguments += ["-CA", str(self.of(signer)), "-CAkey", str(self.key_of(signer))]
        done = subprocess.run(["openssl", "req", "-x509", *arguments], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def no_authorities_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection of redis-py reads all of them, which takes a processor longer than all else that it does."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        do_without("no openssl on PATH makes certificates")
    return Certificates(tmp_path_factory.mktemp("certificates"))


def options_of(certificates: Certificates) -> dict[str, str]:
    """Of a server that wants certificates of its clients too."""
    return {
        "tls_cert_file": str(certificates.of("server")),
        "tls_key_file": str(certificates.key_of("server")),
        "tls_ca_cert_file": str(certificates.of("ours")),
        "tls_auth_clients": "yes",
    }


def query_of(certificates: Certificates, authority: str = "ours", client: str = "client") -> str:
    options = {"ssl_ca_certs": certificates.of(authority)} if authority else {}
    if client:
        options |= {"ssl_certfile": certificates.of(client), "ssl_keyfile": certificates.key_of(client)}
    return "&".join(f"{name}={value}" for name, value in options.items())


class TlsServer:
    """It also listens without TLS, for the test itself."""

    def __init__(self, certificates: Certificates) -> None:
        self.port = free_port()
        self.certificates = certificates
        self.server = RedisServer(tls_port=str(self.port), **options_of(certificates))
        self.redis = self.server.client()

    def url(self, authority: str = "ours", client: str = "client", host: str = "localhost", login: str = "") -> str:
        return f"rediss://{login}{host}:{self.port}/0?{query_of(self.certificates, authority, client)}"


@pytest.fixture(scope="module")
def tls(certificates: Certificates) -> Iterator[TlsServer]:
    try:
        tls = TlsServer(certificates)
    except ConfigError as error:
        do_without(str(error))
    except RuntimeError as error:
        if "tls" not in str(error).lower():
            raise
        do_without("the redis-server that is found was built without TLS")
    with closing(tls.server):
        yield tls


@pytest.fixture
def guarded(tls: TlsServer) -> Iterator[TlsServer]:
    """The user `worker` has the password PASSWORD."""
    tls.redis.flushall()
    tls.redis.acl_setuser("worker", enabled=True, passwords=[f"+{PASSWORD}"], categories=["+@all"], keys=["*"])
    yield tls
    tls.redis.acl_deluser("worker")


def refusal(url: str) -> str:
    with closing(Connections(url)) as connections, pytest.raises(BrokerError) as caught:
        connections.call("PING")
    return str(caught.value)


# --- certificates


def test_jobs_are_pushed_and_run_over_tls_with_certificates_on_both_sides(guarded: TlsServer, tmp_path: Path) -> None:
    url = guarded.url(login=f"worker:{PASSWORD}@")
    with Daemon(tmp_path, url, JOBS, "-q", "q") as daemon:
        daemon.ready()
        done = pyworkers("enqueue", "-q", "q", "Tell", '["by TLS"]', PYWORKERS_REDIS=url)
        assert done.returncode == 0, done.stderr
        daemon.says("told by TLS")
        ours = [client for client in guarded.redis.client_list() if client["name"] == "pyworkers"]
        assert ours
        assert {client["laddr"] for client in ours} == {f"127.0.0.1:{guarded.port}"}
        assert {client["user"] for client in ours} == {"worker"}
        assert daemon.stop() == 0
    stats = pyworkers("stats", "--json", PYWORKERS_REDIS=url)
    assert json.loads(stats.stdout)["processed"] == 1


@pytest.mark.parametrize("authority", ["", "other"])
def test_a_server_whose_authority_is_not_ours_is_refused_and_the_option_is_told(tls: TlsServer, authority: str) -> None:
    with closing(Connections(tls.url(authority))) as connections, pytest.raises(BrokerRefused) as caught:
        connections.call("PING")
    told = str(caught.value)
    assert told.startswith("the server's certificate is not accepted: self-signed certificate in certificate chain")
    assert "?ssl_ca_certs=FILE" in told


def test_a_server_whose_certificate_names_another_host_is_refused_and_the_mismatch_is_told(tls: TlsServer) -> None:
    told = refusal(tls.url(host="127.0.0.1"))
    assert told.startswith("the server's certificate is not accepted: IP address mismatch")
    assert "write the host name of the certificate" in told


def test_a_sentinel_whose_authority_is_not_ours_is_refused_as_a_server_is(tls: TlsServer) -> None:
    told = refusal(f"sentinel://localhost:{tls.port}/mymaster?ssl=true&{query_of(tls.certificates, 'other')}")
    assert told.startswith("the server's certificate is not accepted: self-signed certificate in certificate chain")


@pytest.mark.parametrize("client", ["", "stranger"])
def test_a_client_without_a_certificate_that_the_server_accepts_is_told_how_to_name_one(
    tls: TlsServer, client: str
) -> None:
    for _ in range(20):  # the server's word and the end of the connection race
        assert "?ssl_certfile=FILE&ssl_keyfile=FILE" in refusal(tls.url(client=client))


def test_an_address_with_tls_at_a_port_without_says_so_and_the_other_way_round(tls: TlsServer) -> None:
    plain = tls.server.url.removeprefix("redis://")
    with closing(Connections(f"rediss://{plain}", timeout_s=0.5)) as connections, pytest.raises(BrokerError) as caught:
        connections.call("PING")
    assert isinstance(caught.value, BrokerUnreachable), "nothing has happened"
    told = str(caught.value.with_advice("", ""))
    assert told.startswith("Timeout connecting to server; the server takes the connection and speaks no TLS: ")
    assert told.endswith("write redis:// and not rediss://"), "no advice to start a server that runs"
    assert "if the port speaks TLS, write rediss://" in refusal(f"redis://localhost:{tls.port}")


def test_a_server_that_answers_something_else_than_tls_at_once_is_told_too() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:

        def answer() -> None:
            client, _ = other.accept()
            with client:
                client.recv(1_000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        assert "speaks no TLS" in refusal(f"rediss://127.0.0.1:{other.getsockname()[1]}")
        answering.join()


def test_the_commands_tell_it_in_one_line(tls: TlsServer, tmp_path: Path) -> None:
    done = pyworkers("stats", PYWORKERS_REDIS=tls.url("other"))
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("pyworkers: the server's certificate is not accepted: ")
    with Daemon(tmp_path, tls.url("other"), JOBS, "-q", "q") as daemon:
        assert daemon.wait() == 1
        assert "?ssl_ca_certs=FILE" in daemon.output
        assert "Traceback" not in daemon.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("ssl_ca_certs=/nowhere", "ssl_ca_certs names /nowhere, which cannot be read"),
        ("ssl_ca_certs={client_key}", "ssl_ca_certs cannot be used: "),
        ("ssl_certfile={client}", "ssl_certfile and ssl_keyfile cannot be used: "),
        ("ssl_certfile={client}&ssl_keyfile={other_key}", "ssl_certfile and ssl_keyfile cannot be used: "),
        ("ssl_keyfile={client_key}", "ssl_certfile and ssl_keyfile cannot be used: "),
    ],
)
def test_files_that_cannot_be_used_are_told_before_anything_is_connected(
    certificates: Certificates, options: str, told: str
) -> None:
    files = {
        "client": certificates.of("client"),
        "client_key": certificates.key_of("client"),
        "other_key": certificates.key_of("other"),
    }
    done = pyworkers("stats", PYWORKERS_REDIS=f"rediss://localhost:1/0?{options.format(**files)}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pyworkers: the server's address: {told}")
    assert len(done.stderr.splitlines()) == 1


# --- a cluster


@pytest.fixture(scope="module")
def tls_cluster(certificates: Certificates, tls: TlsServer) -> Iterator[Cluster]:
    """Its nodes tell the name that is in their certificate. `tls`: that there is a server with TLS at all."""
    named = {"cluster_announce_hostname": "localhost", "cluster_preferred_endpoint_type": "hostname"}
    with Cluster(replicas=False, tls_cluster="yes", appendonly="no", **named, **options_of(certificates)) as cluster:
        yield cluster


def url_of(
    cluster: Cluster,
    certificates: Certificates,
    authority: str = "ours",
    host: str = "localhost",
    client: str = "client",
) -> str:
    seeds = ",".join(f"{host}:{node.tls_port}" for node in cluster.nodes)
    return f"rediss+cluster://{seeds}/secret?{query_of(certificates, authority, client)}"


def test_jobs_run_on_a_cluster_over_tls_and_follow_their_slot(
    tls_cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    url = url_of(tls_cluster, certificates)
    with Daemon(tmp_path, url, JOBS, "-q", "q") as daemon:
        daemon.ready()
        for turn in range(2):
            done = pyworkers("enqueue", "-q", "q", "Tell", f'["turn {turn}"]', PYWORKERS_BROKER=url)
            assert done.returncode == 0, done.stderr
            daemon.says(f"told turn {turn}")
            master = tls_cluster.master_of("secret")
            ours = [client["laddr"] for client in master.redis.client_list() if client["name"] == "pyworkers"]
            assert {*ours} == {f"127.0.0.1:{master.tls_port}"}
            tls_cluster.move("secret", tls_cluster.other_than("secret"))
        assert daemon.stop() == 0
        assert " ERROR: " not in daemon.output


@pytest.mark.parametrize(
    ("authority", "host", "told"),
    [
        ("other", "localhost", "self-signed certificate in certificate chain"),
        ("ours", "127.0.0.1", "IP address mismatch"),
    ],
)
def test_a_cluster_whose_certificates_do_not_fit_is_refused_in_one_line(
    tls_cluster: Cluster, certificates: Certificates, authority: str, host: str, told: str
) -> None:
    done = pyworkers("stats", PYWORKERS_BROKER=url_of(tls_cluster, certificates, authority, host))
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("pyworkers: the server's certificate is not accepted: ")
    assert told in line


@pytest.mark.parametrize("client", ["", "stranger"])
def test_a_client_without_a_certificate_that_a_cluster_accepts_is_told_how_to_name_one(
    tls_cluster: Cluster, certificates: Certificates, client: str
) -> None:
    url = url_of(tls_cluster, certificates, client=client)
    for _ in range(20):  # the word of the nodes and the end of the connection race
        with closing(ClusterConnections(url)) as connections, pytest.raises(BrokerError) as caught:
            connections.call("PING")
        assert "?ssl_certfile=FILE&ssl_keyfile=FILE" in str(caught.value)


# --- the password


@contextmanager
def run_by(directory: Path, source: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """`pyworkers run` with the address in a file or in the environment, as talkative as it can be."""
    (directory / "conf.ini").write_text(f"[pyworkers]\nredis = {url if source == 'file' else 'redis://unused'}\n")
    changes = {"PYWORKERS_REDIS": url} if source == "environment" else {}
    arguments = ["run", "-c", "conf.ini", "-q", "q", "-r", "jobs", "--log-level", "debug"]
    (directory / "jobs.py").write_text(
        "import goworkers_py as workers\n@workers.job('Raises', queue='q')\ndef raises():\n    raise OSError('oh')\n"
    )
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            command(*arguments),
            cwd=directory,
            env=environment(PYWORKERS_TEST_EXEC="1", **changes),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def shown_by_ps(pid: int) -> str:
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, timeout=30).stdout


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps on PATH")
@pytest.mark.parametrize("source", ["file", "environment"])
def test_a_daemon_shows_its_password_neither_in_its_log_nor_to_ps(
    guarded: TlsServer, tmp_path: Path, source: str
) -> None:
    def says(text: str) -> bool:
        return bool(eventually(lambda: text in (tmp_path / "output").read_text()))

    with run_by(tmp_path, source, guarded.url(login=f"worker:{PASSWORD}@")) as process:
        assert says("; stop it with TERM")
        guarded.redis.lpush("queue:q", job("Raises", retry=False))
        assert says("OSError")
        process.send_signal(21)  # TTIN: the stack of every thread
        assert says("thread MainThread")
        assert "run -c conf.ini" in shown_by_ps(process.pid)
        assert PASSWORD not in shown_by_ps(process.pid)
        # From now on it may not come in.
        guarded.redis.acl_setuser("worker", reset_passwords=True)
        guarded.redis.client_kill_filter(user="worker")
        assert says("refused the login")
    assert PASSWORD not in (tmp_path / "output").read_text()


@pytest.mark.parametrize(
    "url",
    [
        "rediss://worker:{password}@localhost:1/0",
        "redis://worker:{password}@localhost:1/0",
        "redis://localhost:1/0?username=worker&password={password}",
        "unix:///nowhere/redis.sock?password={password}",
        "sentinel://worker:{password}@localhost:1,localhost:2/jobs?sentinel_password={password}",
        "rediss+cluster://worker:{password}@localhost:1,localhost:2/jobs",
    ],
)
def test_no_traceback_of_a_server_that_cannot_be_reached_shows_the_password(url: str) -> None:
    with closing(Connections(url.format(password=PASSWORD))) as connections:
        with pytest.raises(BrokerError) as caught:
            connections.call("PING")
        shown = "".join(traceback.format_exception(caught.value))
        chain: BaseException | None = caught.value
        while chain is not None:
            shown += repr(chain)
            chain = chain.__cause__ or chain.__context__
        assert PASSWORD not in shown + repr(connections) + repr(connections.blocking_line(1))


def test_no_traceback_of_a_login_that_is_refused_shows_the_password(guarded: TlsServer) -> None:
    with closing(Connections(guarded.url(login=f"worker:not-{PASSWORD}@"))) as connections:
        with pytest.raises(BrokerRefused) as caught:
            connections.call("PING")
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_program_whose_push_fails_shows_no_password_when_it_dies_of_it() -> None:
    program = "import goworkers_py as workers\nworkers.enqueue('q', 'J', [])\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(PYWORKERS_REDIS=f"rediss://worker:{PASSWORD}@localhost:1/0"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "Traceback" in done.stderr
    assert "BrokerUnreachable" in done.stderr
    assert PASSWORD not in done.stderr


# --- RabbitMQ


@pytest.fixture(scope="module")
def rabbit_port(certificates: Certificates) -> Iterator[int]:
    """Of a node of RabbitMQ that takes clients with TLS and a certificate there."""
    servers.allowed = True
    port = free_port(PORTS)
    options = {
        "cacertfile": certificates.of("ours"), "certfile": certificates.of("server"),
        "keyfile": certificates.key_of("server"), "verify": "verify_peer", "fail_if_no_peer_cert": "true",
    }  # fmt: skip
    lines = [f"ssl_options.{name} = {value}" for name, value in options.items()]
    with closing(RabbitServer(f"listeners.ssl.1 = 127.0.0.1:{port}", *lines)):
        yield port


@pytest.mark.timeout(180)  # the start of a node takes a processor for five seconds
def test_a_daemon_runs_jobs_of_rabbitmq_over_tls(rabbit_port: int, certificates: Certificates, tmp_path: Path) -> None:
    address = f"amqps://localhost:{rabbit_port}/?{query_of(certificates)}"
    with Daemon(tmp_path, address, JOBS, "-q", "q=1").ready() as daemon:
        done = pyworkers("enqueue", "-r", "jobs", "Tell", '["over tls"]', cwd=tmp_path, PYWORKERS_BROKER=address)
        assert done.returncode == 0, done.stderr
        daemon.says("told over tls")
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("host", "authority", "client", "error"),
    [
        ("localhost", "other", "client", "the server's certificate is not accepted: "),
        ("127.0.0.1", "ours", "client", "write the host name of the certificate"),
    ],
    ids=["unknown authority", "other host"],
)
def test_a_certificate_of_rabbitmq_that_does_not_fit_ends_the_start(
    rabbit_port: int, certificates: Certificates, tmp_path: Path, host: str, authority: str, client: str, error: str
) -> None:
    address = f"amqps://{host}:{rabbit_port}/?{query_of(certificates, authority, client)}"
    told = pyworkers("enqueue", "--broker", address, "-r", "jobs", "Tell", "[1]", cwd=_with_jobs(tmp_path))
    assert told.returncode != 0
    assert error in told.stderr
    assert "Traceback" not in told.stderr


def _with_jobs(folder: Path) -> Path:
    (folder / "jobs.py").write_text(textwrap.dedent(JOBS))
    return folder
