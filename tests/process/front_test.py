"""The HTTP front where strangers reach it: keys and their bounds, TLS, and clients that mean harm.
usage: front_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import cluster

CERTIFICATE = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
               "-nodes", "-days", "90", "-subj", "/CN=localhost", "-addext",
               "subjectAltName=DNS:localhost,IP:127.0.0.1"]


class Front(cluster.ProcessTest):
    def certificate(self, name):
        """Its files: certificate and key."""
        made = [self.world.path(f"{name}.{kind}") for kind in ("pem", "key")]
        subprocess.run([*CERTIFICATE, "-out", made[0], "-keyout", made[1]], check=True,
                       capture_output=True)
        os.chmod(made[1], 0o600)
        return made

    def key(self, state, name, *flags):
        made = self.world.run("http-key", "create", name, "--state", self.world.state(state), *flags)
        self.assertEqual(made.code, 0, str(made))
        return made.out.strip()

    def ask(self, node, method="GET", path="/v1/models", key=None, body=None, context=None):
        """(status, headers, text)."""
        url = urllib.parse.urlparse(node.info["http"])
        place = (url.hostname.replace("0.0.0.0", "127.0.0.1"), url.port)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        options = {"context": context} if context else {}
        connection = kind(*place, timeout=cluster.TIMEOUT, **options)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        told = answer.status, dict(answer.getheaders()), answer.read().decode()
        connection.close()
        return told

    def dial(self, node):
        url = urllib.parse.urlparse(node.info["http"])
        return socket.create_connection((url.hostname, url.port), timeout=cluster.TIMEOUT)


class WhoMayAsk(Front):
    def test_beyond_loopback_it_wants_keys_and_tls_or_a_word_that_it_may_not(self):
        def refused(state, *flags):
            return self.world.run("up", "--state", self.world.state(state), "--listen",
                                  "127.0.0.1:0", "--http", "0.0.0.0:0", *flags)
        cert, secret = self.certificate("a")
        tls = ("--http-tls-cert", cert, "--http-tls-key", secret)
        self.assert_fails(refused("a"), 1, "--http-tls-cert", "--insecure-http no-tls")
        self.assert_fails(refused("a", *tls), 1, "gpunode http-key create", "no-keys")
        self.assert_fails(refused("a", "--insecure-http", "no-tls"), 1, "gpunode http-key create")
        self.assert_fails(refused("a", "--insecure-http", "all"), 2, "no-keys, no-tls")
        self.assert_fails(refused("a", "--http-tls-cert", cert), 1, "--http-tls-key")
        other = self.certificate("b")[1]
        self.key("a", "alice")
        self.assert_fails(refused("a", "--http-tls-cert", cert, "--http-tls-key", other), 1,
                          "another certificate")
        self.assert_fails(refused("a", "--http-tls-cert", cert + "x", "--http-tls-key", secret), 1,
                          cert + "x")
        node = self.world.start("c", "up", "--http", "0.0.0.0:0", "--insecure-http",
                                "no-keys,no-tls")
        self.assertEqual(self.ask(node)[0], 200)
        self.assertIn("--insecure-http", node.said())

    def test_speaks_tls_1_3_to_who_has_a_key(self):
        cert, secret = self.certificate("a")
        alice = self.key("a", "alice", "--expires", "30d")
        node = self.world.start("a", "up", "--http", "0.0.0.0:0", "--http-tls-cert", cert,
                                "--http-tls-key", secret)
        self.assertTrue(node.info["http"].startswith("https://"))
        context = ssl.create_default_context(cafile=cert)
        status, _, text = self.ask(node, context=context)
        self.assertEqual(status, 401)
        self.assertEqual(json.loads(text)["error"]["code"], "invalid_api_key")
        self.assertEqual(self.ask(node, key=alice, context=context)[0], 200)
        self.assertEqual(self.ask(node, path="/health", context=context)[0], 200)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.assertRaises(ssl.SSLError):
            self.ask(node, key=alice, context=context)
        renewed = self.certificate("b")
        for old, new in zip((cert, secret), renewed):
            os.replace(new, old)
        fresh = ssl.create_default_context(cafile=cert)

        def is_renewed():
            try:
                return self.ask(node, key=alice, context=fresh)[0] == 200
            except ssl.SSLError:
                return False
        cluster.wait_until(is_renewed, "the renewed certificate is shown")
        self.assertNotIn(alice, node.said())

    def test_keys_are_made_listed_and_revoked_while_it_runs(self):
        node = self.world.start("a", "up", "--http", "127.0.0.1:0")
        self.assertEqual(self.ask(node)[0], 200, "nobody has made a key")
        alice = self.key("a", "alice", "--models", "m,n", "--rate", "60", "--tokens", "1000",
                         "--at-once", "2")
        bob = self.key("a", "bob", "--may", "metrics")
        cluster.wait_until(lambda: self.ask(node)[0] == 401, "a key is wanted")
        self.assertEqual(self.ask(node, key=alice)[0], 200)
        self.assertEqual(self.ask(node, key=bob)[0], 403)
        self.assertIn("gpunode_http_requests_total", self.ask(node, path="/metrics", key=bob)[2])
        self.assertEqual(self.ask(node, "POST", "/v1/completions", alice,
                                  {"model": "o", "prompt": "a"})[0], 403)
        listed = node.ask("http-key", "ls", "--json")
        self.assertEqual([one["name"] for one in listed.json["keys"]], ["alice", "bob"])
        kept = self.world.path("a/http_keys.json")
        self.assertEqual(os.stat(kept).st_mode & 0o777, 0o600)
        secret = alice.split("-", 2)[2]  # after gpnk- and its name; it may have dashes of its own
        with open(kept, encoding="utf-8") as stream:
            self.assertNotIn(secret, stream.read())
        self.assertEqual(node.ask("http-key", "revoke", "alice").code, 0)
        cluster.wait_until(lambda: self.ask(node, key=alice)[0] == 401, "it is revoked")
        self.assert_fails(node.ask("http-key", "revoke", "alice"), 1, "http-key ls")
        self.assert_fails(node.ask("http-key", "create", "bob"), 1, "bob", "revoke")
        out = self.world.path("carol.key")
        made = node.ask("http-key", "create", "carol", "--out", out)
        self.assertEqual((made.code, made.out), (0, ""))
        with open(out, encoding="utf-8") as stream:
            carol = stream.read().strip()
        cluster.wait_until(lambda: self.ask(node, key=carol)[0] == 200, "carol is known")
        os.chmod(kept, 0o644)
        cluster.wait_until(lambda: self.ask(node, key=carol)[0] == 503, "others may read it")
        self.assertIn("chmod 600", node.said())


def resident_bytes(node):
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class WhoMeansHarm(Front):
    def setUp(self):
        super().setUp()
        self.node = self.world.start("a", "up", "--http", "127.0.0.1:0")
        self.held = []
        self.addCleanup(lambda: [one.close() for one in self.held])

    def is_served(self, longest=20.0):
        begin = time.monotonic()
        self.assertEqual(self.ask(self.node)[0], 200)
        self.assertLess(time.monotonic() - begin, longest)

    def hold(self, text=b"", count=1):
        """Connections that say this, and go on to be there."""
        for _ in range(count):
            one = self.dial(self.node)
            try:
                one.sendall(text)
            except OSError:  # it was hung up on already
                pass
            self.held.append(one)

    def test_slow_ones_hold_nobody_up_and_are_told(self):
        before = resident_bytes(self.node)
        slow = [b"", b"GET /v1/mod", b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"]
        for text in slow:
            self.hold(text, 400)
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                for one in self.held:
                    try:
                        one.send(b"x")
                    except OSError:
                        pass
        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            for _ in range(10):
                self.is_served()
        finally:
            stop.set()
            dripping.join()
        self.assertLess(resident_bytes(self.node) - before, 64 << 20)
        last = self.held[-1]
        self.assertIn(b" 408 ", last.recv(100))

    def test_thousands_at_once_leave_the_others_served(self):
        before = resident_bytes(self.node)
        for _ in range(8):
            self.hold(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n", 500)
            self.is_served()
            for one in self.held[:-900]:  # so many may this test have open itself
                one.close()
            del self.held[:-900]
        self.assertLess(resident_bytes(self.node) - before, 64 << 20)

    def test_what_is_too_much_is_refused_in_openais_form(self):
        for request, status in (
                (b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 40_000, 431),
                (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                 b"Content-Type: application/json\r\n"
                 b"Content-Length: 99999999\r\n\r\n", 413),
                (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                 b"Content-Type: application/json\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n", 413),
                (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"
                 b"Content-Length: 2\r\n\r\n", 400), (b"GET /v1/models HTTP/1.1\r\n\r\n", 400),
                (b"\x16\x03\x01\x02\x00\r\n\r\n", 400), (b"PRI * HTTP/2.0\r\n\r\n", 505)):
            with self.subTest(status=status, request=request[:40]):
                one = self.dial(self.node)
                one.sendall(request)
                answer = http.client.HTTPResponse(one)
                answer.begin()
                self.assertEqual(answer.status, status)
                self.assertIn("message", json.loads(answer.read())["error"])
                one.close()
        self.is_served()

    def test_noise_is_survived(self):
        for seed in range(200):
            self.hold(bytes((seed * 7 + at * at) % 256 for at in range(300)))
        self.is_served()


if __name__ == "__main__":
    cluster.main()
