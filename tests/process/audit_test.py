"""The audit log: what is in it, that tampering shows, and that peers remember a log that is gone."""
import glob
import json
import os
import shutil

import cluster


class Audit(cluster.ProcessTest):
    def shown(self, node, *flags):
        done = node.ask("audit", "show", "--json", *flags)
        self.assertEqual(done.code, 0, str(done))
        return [json.loads(line) for line in done.out.splitlines()]

    def events(self, node, kind):
        return self.shown(node, "--kind", kind)

    def test_it_tells_who_was_let_in_what_was_ordered_and_who_was_refused(self):
        first = self.world.start("first", **self.world.slow_steps(20))
        second = self.world.join("second", first)
        job = self.job_file(steps=400, every=100, nodes=1)
        self.assertEqual(first.ask("train", job).code, 0)
        self.assertEqual(first.ask("job", "stop", "small").code, 0)
        self.assertEqual(first.ask("job", "rm", "small").code, 0)
        self.assertEqual(first.ask("node", "revoke", "second", "--reason", "sold").code, 0)
        told = {entry["event"]: entry["fields"] for entry in self.shown(first)}
        self.assertLessEqual({"token_created", "node_admitted", "job_submitted", "job_stopped",
                              "job_removed", "node_revoked"}, set(told))
        self.assertEqual(told["job_submitted"]["name"], "small")
        self.assertEqual(told["node_revoked"]["reason"], "sold")
        text = first.ask("audit", "show", "--since", "1h").out
        self.assert_says(text, "node_revoked", "reason=sold")
        unknown = first.ask("audit", "show", "--kind", "revoked")
        self.assertEqual((unknown.code, unknown.out), (0, ""))
        self.assert_says(unknown.err, "no entry of kind 'revoked'", "node_revoked")
        verified = first.ask("audit", "verify", "--json").json
        self.assertEqual(verified["entries"], len(self.shown(first)))
        self.assertEqual(verified["rolled_back"], 0)
        second.kill()

    def test_it_tells_of_http_keys_and_of_no_key_itself(self):
        first = self.world.start("first")
        bob = first.ask("http-key", "create", "bob", "--may", "infer").out.strip()
        # Not the entry alone: who is killed between the two tells of the key twice.
        audited = os.path.join(first.state, "http_keys.audited")
        cluster.wait_until(lambda: os.path.exists(audited), "the key is noted, and that it is")
        first.kill()
        self.assertEqual(first.ask("http-key", "create", "eve").code, 0)
        self.assertEqual(first.ask("http-key", "revoke", "bob").code, 0)
        first = self.world.start("first")
        cluster.wait_until(lambda: first.ask("audit", "show", "--kind", "http_key_revoked").out,
                           "what was done without the node is noted")
        made = self.events(first, "http_key_created")
        self.assertEqual([one["fields"]["key"] for one in made], ["bob", "eve"])
        self.assertEqual((made[0]["fields"]["may"], made[0]["fields"]["models"]), ("infer", "all"))
        gone, = self.events(first, "http_key_revoked")
        self.assertEqual(gone["fields"], {"key": "bob", "id": made[0]["fields"]["id"]})
        self.assertNotIn(bob, first.ask("audit", "show").out)
        self.assertEqual(first.ask("audit", "verify").code, 0)

    def test_a_changed_entry_is_named_and_does_not_keep_the_node_from_starting(self):
        first = self.world.start("first")
        self.world.token(first)
        self.world.token(first)
        first.kill()
        path, = glob.glob(os.path.join(first.state, "audit", "*.log"))
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text.replace('"uses":"1"', '"uses":"7"', 1))
        self.assert_fails(first.ask("audit", "verify"), 1, "000001.log:1", "was changed")
        self.assert_fails(first.ask("audit", "show"), 1, "was changed", "an entry a line")
        first = self.world.start("first")
        begun, = self.events(first, "audit_begun_anew")
        self.assert_says(begun["fields"]["reason"], "was changed")
        self.assert_says(first.said(), "does not verify")
        verified = first.ask("audit", "verify", "--json").json
        self.assertEqual(verified["set_aside"], ["audit.damaged-1"])

    def test_one_that_was_put_back_is_found_out_by_the_peers(self):
        first = self.world.start("first")
        self.world.token(first)
        parts = ("audit", "audit.head")
        kept = self.world.path("kept")
        shutil.copytree(os.path.join(first.state, parts[0]), os.path.join(kept, parts[0]))
        shutil.copy(os.path.join(first.state, parts[1]), kept)
        second = self.world.join("second", first)
        length = first.ask("audit", "verify", "--json").json["entries"]
        cluster.wait_until(lambda: os.path.exists(os.path.join(second.state, "audit.peers")),
                           "second remembers")
        first.kill()
        shutil.rmtree(os.path.join(first.state, parts[0]))
        shutil.move(os.path.join(kept, parts[0]), first.state)
        shutil.move(os.path.join(kept, parts[1]), os.path.join(first.state, parts[1]))
        # On its own disk nothing is wrong.
        self.assertEqual(first.ask("audit", "verify", "--json").json["entries"], 1)
        first = self.world.start("first")
        cluster.wait_until(lambda: self.events(first, "audit_rolled_back"), "it is told")
        cluster.wait_until(lambda: self.events(second, "peer_audit_rolled_back"), "it is noticed")
        found = self.events(first, "audit_rolled_back")[0]["fields"]
        self.assertLessEqual(int(found["had"]), length)
        self.assert_says(first.ask("audit", "verify").out, "deleted or put back")
        self.assert_says(second.said(), "deleted or put back of first")


if __name__ == "__main__":
    cluster.main()
