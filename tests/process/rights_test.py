"""Who may be in the cluster and what it may: tokens that name roles, and nodes that are put out."""
import json
import signal

import cluster


class Rights(cluster.ProcessTest):
    def joined(self, name, through, *flags):
        """A node that joined with a token made with those flags."""
        token = self.world.token(through, *flags)
        return self.world.start(name, "join", through.join_address, env={"GPUNODE_TOKEN": token})

    def test_a_token_names_what_who_joins_with_it_may(self):
        first = self.world.start("first")
        plain = self.joined("plain", first, "--role", "compute,call")
        ruler = self.joined("ruler", first, "--role", "all")
        self.sees(first, "alive", "plain", "ruler")
        roles = {name: one["roles"] for name, one in self.nodes(first).items()}
        self.assertEqual(roles["plain"], "compute, call")
        self.assertEqual(roles["first"], roles["ruler"])
        self.assert_fails(plain.ask("token", "create"), 1, "needs the role admit")
        self.assert_fails(plain.ask("node", "revoke", "ruler"), 1, "needs the role operate")
        self.assertEqual(ruler.ask("token", "create", "--role", "compute").code, 0)
        self.assert_fails(first.ask("token", "create", "--role", "compote"), 1, "compute")

    def test_tokens_are_listed_and_revoked(self):
        first = self.world.start("first")
        made = first.ask("token", "create", "--uses", "2", "--label", "rack 7", "--json").json
        listed, = first.ask("token", "ls", "--json").json["tokens"]
        self.assertEqual((listed["id"], listed["label"], listed["uses_left"]),
                         (made["id"], "rack 7", 2))
        self.assertNotIn(made["token"], json.dumps(listed))
        self.assertEqual(first.ask("token", "revoke", "rack 7").code, 0)
        self.assertEqual(first.ask("token", "ls", "--json").json["tokens"], [])
        refused = self.world.run("join", first.join_address, "--state", self.world.state("late"),
                                 "--listen", "127.0.0.1:0", env={"GPUNODE_TOKEN": made["token"]})
        self.assert_fails(refused, 1, "token")

    def test_a_node_that_is_put_out_is_gone_everywhere_and_does_not_come_back(self):
        first = self.world.start("first")
        second = self.world.join("second", first)
        third = self.world.join("third", first)
        away = self.world.join("away", first)
        for node in (first, second, third):
            self.sees(node, "alive", "first", "second", "third", "away")
        away.kill()
        self.assert_fails(first.ask("node", "revoke", "second", "--restore-revoked"), 1,
                          "put out nobody")
        done = second.ask("node", "revoke", "third", "--reason", "sold", "--json")
        self.assertEqual(done.code, 0, str(done))
        for node in (first, second):
            cluster.wait_until(lambda node=node: self.nodes(node)["third"]["health"] == "left",
                               f"{node.name} has put it out")
            self.assertEqual(self.nodes(node)["third"]["roles"], "none")
            self.assertTrue(self.nodes(node)["third"]["put_out"])
            self.assertFalse(self.nodes(node)["second"]["put_out"])
        cluster.wait_until(lambda: "put out" in first.said(), "the log tells it")
        self.assertIn("sold", first.said())
        # Neither its own process nor a restart of it is heard again.
        third.kill()
        third = self.world.start("third")
        away = self.world.start("away")
        self.sees(first, "alive", "away")
        # Who was away may have heard of the end of the third before it heard of the third.
        cluster.wait_until(lambda: self.nodes(away).get("third", {}).get("health") in
                           (None, "left", "dead"), "who was away knows it, too")
        self.assertEqual(self.nodes(first)["third"]["health"], "left")
        cluster.wait_until(lambda: "lets this node in no more" in third.said(), "it is told, too")
        self.assert_says(third.ask("audit", "show").out, "shut_out")
        self.assert_says(third.ask("nodes").out, "lets this node in no more", "refound")
        third.kill()
        again = self.world.run("join", first.join_address, "--state", third.state, "--listen",
                               "127.0.0.1:0", env={"GPUNODE_TOKEN": self.world.token(first)})
        self.assert_fails(again, 1, "lets this node in no more", "refound")

    def test_an_empty_word_is_no_wish(self):
        first = self.world.start("first")
        for words in (("token", "revoke", ""), ("node", "revoke", ""),
                      ("cluster", "refound", "--recovery-key", "key", "--without", "")):
            self.assert_fails(first.ask(*words), 2, "empty")

    def test_what_one_that_is_out_orders_at_a_node_that_was_away_is_taken_back(self):
        first = self.world.start("first")
        token = self.world.token(first, "--role", "all")
        second = self.world.start("second", "join", first.join_address,
                                  env={"GPUNODE_TOKEN": token})
        third = self.world.join("third", first)
        away = self.world.join("away", first)
        for node in (first, second, third, away):
            self.sees(node, "alive", "first", "second", "third", "away")
        away.kill()
        done = first.ask("node", "revoke", "second", "--json").json
        self.assertTrue(done["silenced"], str(done))
        self.sees(third, "left", "second")
        for node in (first, third):
            node.signal(signal.SIGSTOP)
        away = self.world.start("away")
        self.sees(second, "alive", "away")
        self.assertEqual(second.ask("node", "revoke", "third").code, 0)
        self.sees(away, "left", "third")
        for node in (first, third):
            node.signal(signal.SIGCONT)
        self.sees(away, "left", "second")
        self.sees(away, "alive", "first", "third")
        self.sees(third, "alive", "away")
        self.assert_says(away.ask("audit", "show", "--kind", "node_restored").out, "node_restored")


class Owners(cluster.ProcessTest):
    """Jobs are their submitter's; others stop, resume and remove them only where they operate."""

    def setUp(self):
        super().setUp()
        self.first = self.world.start("first", **self.world.slow_steps(50))
        self.plain = self.joined("plain", "compute,call")
        self.owner = self.joined("owner", "compute,submit,call", "--label", "home")
        self.rival = self.joined("rival", "submit")

    def joined(self, name, roles, *flags):
        token = self.world.token(self.first, "--role", roles)
        return self.world.start(name, "join", self.first.join_address, *flags,
                                **{**self.world.slow_steps(50), "env": {
                                    **self.world.slow_steps(50)["env"], "GPUNODE_TOKEN": token}})

    def test_only_who_may_submit_has_jobs_and_only_who_may_serve_serves(self):
        job = self.job_file(steps=3, every=3)
        self.assert_fails(self.plain.ask("train", job), 1, "needs the role submit", "compute, call")
        self.assert_fails(self.plain.ask("serve", "small"), 1, "needs the role serve")
        self.assert_fails(self.rival.ask("generate", "--model", "small", "--prompt", "x"), 1,
                          "needs the role call")

    def test_who_may_only_submit_has_its_job_computed_by_others(self):
        self.world.full_speed()
        begun = self.rival.ask("train", self.job_file(steps=10, every=5, nodes=2), "--json")
        self.assertEqual(begun.code, 0, str(begun))
        self.assertNotIn("rival", begun.json["candidates"])
        refused = {one["node"]: one["reason"] for one in begun.json["refused"]}
        self.assert_says(refused["rival"], "not compute")
        self.wait_for_phase(self.rival, "small")
        self.removed_by(self.rival)

    def removed_by(self, node):
        """What became of the removal, as soon as all nodes that this one hears say the job is over."""
        def removed():
            done = node.ask("job", "rm", "small", "--json")
            if done.code != 0:
                self.assert_says(done.out, "is not over")
            return done.code == 0 and done.json
        return cluster.wait_until(removed, f"{node.name} removes it")

    def test_a_job_is_its_owners(self):
        job = self.job_file(steps=1_000_000, every=100_000, nodes=1, top='labels = ["home"]')
        self.assertEqual(self.owner.ask("train", job).code, 0)
        self.wait_for_phase(self.owner, "small", "running")
        cluster.wait_until(lambda: self.rival.ask("jobs", "--json").json["jobs"], "rival hears of it")
        for words in (("job", "stop"), ("job", "rm", "--force")):
            for node in (self.rival, self.plain):
                self.assert_fails(node.ask(*words[:2], "small", *words[2:]), 1, "role", "operate")
        self.assert_fails(self.rival.ask("job", "log", "small"), 1, "observe")
        self.assertEqual(self.owner.ask("job", "show", "small", "--json").json["phase"], "running")
        self.world.full_speed()
        stopped = self.owner.ask("job", "stop", "small")
        self.assertEqual(stopped.code, 0, str(stopped))
        # Who operates may go on with it and take it away, from a node that has no part in it.
        resumed = self.first.ask("job", "resume", "small")
        self.assertEqual(resumed.code, 0, str(resumed))
        self.assertEqual(self.first.ask("job", "stop", "small").code, 0)
        self.assertIn("owner", self.removed_by(self.first)["removed_on"])


if __name__ == "__main__":
    cluster.main()
