"""`join` explains itself: each cause of failure told apart, with its remedy, and nothing lost."""
import os
import re
import socket
import threading
import time

import cluster

BANNER = b"gpnjoin\x02"  # what a banner frame begins with; two version numbers follow


class Listener:
    """A port of ours that answers each connection with a function."""

    def __init__(self, serve):
        self.door = socket.socket()
        self.door.bind(("127.0.0.1", 0))
        self.door.listen()
        self.port = self.door.getsockname()[1]
        self.serve = serve
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.door.accept()
            except OSError:
                return
            threading.Thread(target=self.run, args=(connection,), daemon=True).start()

    def run(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass

    def close(self):
        self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()


def carry(source, target, change):
    """Passes bytes on until the source ends."""
    try:
        while data := source.recv(65536):
            target.sendall(change(data))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def proxy_to(port, change):
    """Passes connections on to a port of this machine; `change` may rewrite what comes back."""
    def serve(client):
        with socket.create_connection(("127.0.0.1", port)) as server:
            thread = threading.Thread(target=carry, args=(client, server, lambda data: data),
                                      daemon=True)
            thread.start()
            carry(server, client, change)
    return Listener(serve)


def of_version_nine(data):
    at = data.find(BANNER)
    if at < 0:
        return data
    at += len(BANNER)
    return data[:at] + b"\x09\x00\x09\x00" + data[at + 4:]


class Join(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.first = self.world.start("first")

    def join(self, address, token, *flags, name="late", env=None, **options):
        environment = {**(env or {}), "GPUNODE_TOKEN": token}
        return self.world.run("join", address, "--state", self.world.state(name), "--name", name,
                              "--listen", "127.0.0.1:0", *flags, env=environment, **options)

    def names(self, node):
        return sorted(one["name"] for one in node.ask("nodes", "--json").json["nodes"])

    def assert_not_in(self):
        self.assertEqual(self.names(self.first), ["first"])
        self.assertIsNone(self.first.process.poll())

    def test_a_token_lets_a_node_in_and_a_restart_needs_none(self):
        late = self.world.join("late", self.first)
        cluster.wait_until(lambda: self.names(self.first) == ["first", "late"], "late is seen")
        cluster.wait_until(lambda: self.names(late) == ["first", "late"], "first is seen")
        late.kill()
        again = self.world.start("late", "join", self.first.join_address)
        self.assertEqual(again.info["id"], late.info["id"])
        cluster.wait_until(lambda: all(
            one["health"] == "alive" for one in self.first.ask("nodes", "--json").json["nodes"]),
            "both are alive")

    def test_who_leaves_a_moment_after_another_came_in_finds_it_when_both_are_started_again(self):
        """Who stays does not dial whom it has heard leave, so the other one has to know where it is."""
        ports = {name: f"127.0.0.1:{cluster.free_port_range()}" for name in ("one", "two")}
        nodes = {"one": self.world.start("one", listen=ports["one"])}
        other = self.world.join("other", nodes["one"])  # which is noted at once, and the next is not
        nodes["two"] = self.world.join("two", nodes["one"], listen=ports["two"])
        cluster.wait_until(lambda: len(self.names(nodes["one"])) == 3, "two is seen")
        self.assertEqual(nodes["one"].ask("leave").code, 0)
        nodes["one"].wait()
        cluster.wait_until(lambda: "has left" in nodes["two"].said(), "it is told")
        other.kill()
        time.sleep(1.2)  # it notes who is there once a second
        nodes["two"].signal(15)
        nodes["two"].wait()
        for name in ("two", "one"):
            nodes[name] = self.world.start(name, listen=ports[name])
        for node in nodes.values():
            cluster.wait_until(lambda node=node: {"one", "two"} <= {
                one["name"] for one in node.ask("nodes", "--json").json["nodes"]
                if one["health"] == "alive"}, "they find each other", 45)

    def test_the_token_comes_from_a_file_or_standard_input(self):
        path = self.world.write("token", self.world.token(self.first))
        os.chmod(path, 0o600)
        one = self.world.start("one", "join", self.first.join_address, "--token-file", path)
        self.assertNotIn("warning: others", one.said())
        state = self.world.state("two")
        two = self.world.run("join", self.first.join_address, "--token-file", "-", "--state", state,
                             "--name", "two", "--listen", "127.0.0.1:0", "--detach", "--json",
                             stdin=self.world.token(self.first) + "\n")
        self.assertEqual(two.code, 0, str(two))
        self.world.detached.append(two.json["pid"])
        self.assertEqual(self.world.run("nodes", "--state", state).code, 0)

    def test_labels_and_names_are_seen_by_others(self):
        late = self.world.join("late", self.first)
        late.signal(15)
        late.wait()
        self.world.start("late", "up", "--label", "gpu=none", "--label", "spot")

        def labelled():
            nodes = self.first.ask("nodes", "--json").json["nodes"]
            return [one for one in nodes if one["labels"] == {"gpu": "none", "spot": ""}]
        cluster.wait_until(labelled, "the labels are seen")
        self.assertIn("gpu=none,spot", self.first.ask("nodes").out)

    def test_the_token_is_gone_from_the_environment(self):
        token = self.world.token(self.first)
        late = self.world.start("late", "join", self.first.join_address,
                                env={"GPUNODE_TOKEN": token})
        with open(f"/proc/{late.process.pid}/environ", "rb") as stream:
            self.assertNotIn(token.encode(), stream.read())

    def test_a_name_that_does_not_resolve(self):
        result = self.join("no-such-host.invalid:7603", self.world.token(self.first))
        self.assert_fails(result, 1, "no-such-host.invalid", "resolve", "spelling")
        self.assert_not_in()

    def test_an_address_that_is_none(self):
        result = self.join("127.0.0.1:many", self.world.token(self.first))
        self.assert_fails(result, 1, "port", "host:port")

    def test_a_shut_port(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            result = self.join(f"127.0.0.1:{port}", self.world.token(self.first))
        self.assert_fails(result, 1, str(port), "gpunode up")
        self.assert_not_in()

    def test_something_that_is_no_gpunode(self):
        web = Listener(lambda connection: connection.sendall(
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") or connection.recv(100))
        self.addCleanup(web.close)
        result = self.join(f"127.0.0.1:{web.port}", self.world.token(self.first))
        self.assert_fails(result, 1, str(web.port), "join port")
        self.assert_not_in()

    def test_the_control_port_instead_of_the_join_port(self):
        control = self.first.info["endpoints"][0].removeprefix("tcp://")
        result = self.join(control, self.world.token(self.first))
        self.assert_fails(result, 1, "join port")
        self.assert_not_in()

    def test_another_cluster(self):
        other = self.world.start("other")
        result = self.join(self.first.join_address, self.world.token(other))
        self.assert_fails(result, 1, "another cluster", "make the token")
        self.assert_not_in()

    def test_a_state_directory_of_another_cluster(self):
        other = self.world.start("other")
        other.signal(15)
        other.wait()
        result = self.join(self.first.join_address, self.world.token(self.first), name="other")
        self.assert_fails(result, 1, "another cluster", "--state")
        self.assert_not_in()

    def test_no_token(self):
        result = self.world.run("join", self.first.join_address, "--state",
                                self.world.state("late"), "--listen", "127.0.0.1:0")
        self.assert_fails(result, 1, "token create", "--token-file", "GPUNODE_TOKEN")
        self.assert_not_in()

    def test_a_damaged_token(self):
        token = self.world.token(self.first)
        changed = token[:40] + ("A" if token[40] != "A" else "B") + token[41:]
        for wrong in (changed, token[:-20], "hello"):
            result = self.join(self.first.join_address, wrong)
            self.assert_fails(result, 1, "token")
            self.assertNotIn(wrong, result.err)
        self.assert_not_in()

    def test_a_token_that_the_issuer_does_not_know(self):
        token = self.world.token(self.first)
        self.first.signal(15)
        self.assertEqual(self.first.wait(), 0)
        os.remove(os.path.join(self.first.state, "join_tokens"))
        self.first = self.world.start("first")
        result = self.join(self.first.join_address, token)
        self.assert_fails(result, 1, "token", "make a new token")
        self.assert_not_in()

    def test_an_expired_token(self):
        token = self.world.token(self.first, "--ttl", "1s")
        time.sleep(1.3)  # a token's term is counted in whole seconds of the wall clock
        result = self.join(self.first.join_address, token)
        self.assert_fails(result, 1, "expired", "make a new token", "--ttl")
        self.assert_not_in()

    def test_a_used_token(self):
        token = self.world.token(self.first)
        self.world.start("one", "join", self.first.join_address, env={"GPUNODE_TOKEN": token})
        result = self.join(self.first.join_address, token)
        self.assert_fails(result, 1, "used", "make a new token", "--uses")
        self.assertNotIn("late", self.names(self.first))

    def test_another_protocol_version(self):
        port = int(self.first.join_address.rsplit(":", 1)[1])
        newer = proxy_to(port, of_version_nine)
        self.addCleanup(newer.close)
        result = self.join(f"127.0.0.1:{newer.port}", self.world.token(self.first))
        self.assert_fails(result, 1, "join protocol 9", "same version")
        self.assert_not_in()
        same = proxy_to(port, lambda data: data)  # it is the version that made the difference
        self.addCleanup(same.close)
        self.world.start("late", "join", f"127.0.0.1:{same.port}",
                         env={"GPUNODE_TOKEN": self.world.token(self.first)})

    def test_clocks_that_disagree(self):
        log = self.world.path("faults")
        for skew in ("3600", "-3600"):
            result = self.join(self.first.join_address, self.world.token(self.first), faulty=True,
                               env={"GPUNODE_FAULT_CLOCK_SKEW": skew, "GPUNODE_FAULT_LOG": log})
            self.assert_fails(result, 1, "clocks", "set-ntp")
            with open(log, encoding="utf-8") as stream:
                self.assertIn("clock_skew " + skew, stream.read())
        self.assert_not_in()

    def test_an_advertised_address_that_cannot_be_reached(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            result = self.join(self.first.join_address, self.world.token(self.first),
                               "--advertise", f"127.0.0.1:{port}")
        self.assert_fails(result, 1, f"127.0.0.1:{port}", "--advertise", "firewall")
        self.assert_not_in()

    def test_a_state_directory_in_use(self):
        result = self.join(self.first.join_address, self.world.token(self.first), name="first")
        self.assert_fails(result, 1, "in use", "--state")
        self.assert_not_in()

    def test_an_issuer_that_is_away(self):
        second = self.world.join("second", self.first)
        cluster.wait_until(lambda: self.names(second) == ["first", "second"], "both are known")
        token = self.world.token(self.first)
        self.first.kill()

        def refused():
            result = self.join(second.join_address, token)
            return result if re.search("any node that is up", result.err) else None
        self.assert_fails(cluster.wait_until(refused, "the issuer is away"), 1, "token")
        late = self.world.join("third", second)
        self.assertTrue(late.info["ok"])


if __name__ == "__main__":
    cluster.main()
