"""Keys that are, or may be, in wrong hands: a node's link key, and the cluster's root."""
import os
import shutil
import stat

import cluster


class Keys(cluster.ProcessTest):
    def three(self, roles="all"):
        first = self.world.start("first")
        second, third = (self.world.start(name, "join", first.join_address, env={
            "GPUNODE_TOKEN": self.world.token(first, "--role", roles)})
            for name in ("second", "third"))
        for node in (first, second, third):
            self.sees(node, "alive", "first", "second", "third")
        return first, second, third


class Rotation(Keys):
    def test_a_node_takes_a_new_key_and_stays_who_it_is(self):
        first, second, third = self.three()
        token = second.ask("token", "create", "--json")
        self.assertEqual(token.code, 0, str(token))
        before = self.nodes(first)["second"]
        for epoch in (2, 3):
            done = self.rotated(second)
            self.assertEqual(done.json["epoch"], epoch)
            self.assertGreaterEqual(done.json["told"], 2)
            self.assertEqual(done.json["tokens_ended"], 3 - epoch)
            cluster.wait_until(lambda: self.joins_through(second), "its links are up again")
        after = self.nodes(first)["second"]
        self.assertEqual((before["id"], before["endpoints"]), (after["id"], after["endpoints"]))
        # Through a restart, and for one that was away meanwhile.
        third.kill()
        self.rotated(second)
        second.kill()
        second = self.world.start("second")
        third = self.world.start("third")
        for node in (first, second, third):
            self.sees(node, "alive", "first", "second", "third")

    def rotated(self, node):
        """Once the key before is told: of two in a hurry others would know neither."""
        def done():
            told = node.ask("keys", "rotate", "--json")
            if told.code != 0:
                self.assertIn("still being told", str(told))
            return told if told.code == 0 else None
        return cluster.wait_until(done, "the key is new")

    def joins_through(self, issuer):
        """Whether another node comes in by a token of this one, and hears from it."""
        self.count = getattr(self, "count", 0) + 1
        name = f"late{self.count}"
        token = self.world.token(issuer)
        node = self.world.start(name, "join", issuer.join_address, env={"GPUNODE_TOKEN": token})
        self.sees(node, "alive", issuer.name)
        node.kill()
        return True

    def test_a_job_goes_on_through_it(self):
        first, second, third = self.three()
        job = self.job_file(steps=2000, every=1000, nodes=3)
        self.assertEqual(first.ask("train", job).code, 0)
        cluster.wait_until(lambda: self.progress(first, "small").get("step", 0) > 0, "it trains")
        self.assertEqual(second.ask("keys", "rotate").code, 0)
        self.wait_for_phase(first, "small")

    def test_none_is_taken_while_nobody_is_here_to_pass_it_on(self):
        first = self.world.start("first")
        self.assertEqual(first.ask("keys", "rotate").code, 0)
        second = self.world.join("second", first)
        self.sees(first, "alive", "second")
        second.kill()
        self.sees(first, "dead", "second")
        self.assert_fails(first.ask("keys", "rotate"), 1, "no other node is up")


class Refounding(Keys):
    def taken_key(self, first):
        """The recovery key, moved to where it belongs."""
        path = first.info["recovery_key"]
        self.assertEqual(path, os.path.join(first.state, "recovery.key"))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assert_says(first.ask("nodes").out, path, "move it to a safe place")
        self.assert_says(first.said(), "recovery key", path)
        safe = self.world.path("safe.key")
        shutil.move(path, safe)
        self.assertNotIn("recovery.key", first.ask("nodes").out)
        return safe

    def test_a_cluster_whose_founder_was_taken_is_founded_anew(self):
        first, second, third = self.three("compute,call")
        key = self.taken_key(first)
        self.assert_fails(second.ask("token", "create"), 1, "needs the role admit")
        self.assert_says(second.ask("nodes").out, "only first may admit and operate")
        self.assert_fails(second.ask("cluster", "refound"), 2, "--recovery-key")
        self.assert_fails(second.ask("cluster", "refound", "--recovery-key", key, "--without", "second"),
                          1, "would put itself out")
        words = ("cluster", "refound", "--recovery-key", key, "--without", "first")
        told = second.ask(*words, "--check", "--json")
        self.assertEqual(told.code, 0, str(told))
        self.assertEqual({one["name"]: one["becomes"] for one in told.json["nodes"]},
                         {"first": "put_out", "second": "member", "third": "member"})
        self.assertEqual(self.nodes(second)["first"]["health"], "alive")
        done = second.ask(*words)
        self.assertEqual(done.code, 0, str(done))
        self.assert_says(done.out, "first", "put out", "third", "this node has all roles")
        for node in (second, third):
            self.sees(node, "left", "first")
            self.sees(node, "alive", "second", "third")
            cluster.wait_until(lambda node=node: "operate" in self.nodes(node)["second"]["roles"],
                               f"{node.name} knows what the second may")
        self.assert_says(third.said(), "put out")
        # The new root lets others in, and they go back to the recovery key alone.
        token = self.world.token(second, "--role", "all")
        fourth = self.world.start("fourth", "join", third.join_address, env={"GPUNODE_TOKEN": token})
        self.sees(fourth, "alive", "second", "third")
        third.kill()
        third = self.world.start("third")
        self.sees(third, "alive", "second", "fourth")
        self.assertNotEqual(self.nodes(third).get("first", {}).get("health"), "alive")

    def test_what_a_founder_that_was_taken_had_put_out_comes_back(self):
        first, second, third = self.three()
        key = self.taken_key(first)
        self.assertEqual(first.ask("node", "revoke", "second", "--with-admitted").code, 0)
        self.sees(third, "left", "second")  # who is put out is told nothing any more
        self.assertEqual(first.ask("node", "revoke", "third", "--with-admitted").code, 0)
        first.kill()
        for node in (second, third):
            done = node.ask("cluster", "refound", "--recovery-key", key, "--without", "first")
            self.assertEqual(done.code, 0, str(done))
        self.sees(second, "alive", "third")
        self.sees(third, "alive", "second")

    def test_another_clusters_recovery_key_is_none(self):
        first, second, _ = self.three()
        other = self.world.start("other")
        self.assert_fails(second.ask("cluster", "refound", "--recovery-key", self.taken_key(other),
                                     "--without", "first"), 1, "another cluster")
        os.chmod(first.info["recovery_key"], 0o644)
        self.assert_fails(first.ask("cluster", "refound", "--recovery-key",
                                    first.info["recovery_key"]), 1, "chmod 600")


if __name__ == "__main__":
    cluster.main()
