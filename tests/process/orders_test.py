"""What a person orders of a job: stop, resume after a restart of all, recover by force.

The result is bit for bit that of an undisturbed run, whatever was ordered on the way.
"""

import cluster

STEPS = 300


class Orders(cluster.ProcessTest):
    def start(self, count):
        """Nodes whose steps take their time until full_speed()."""
        names = ["a", "b", "c"][:count]
        paced = self.world.slow_steps(30_000 // STEPS)
        first = self.world.start(names[0], **paced)
        nodes = [first] + [self.world.join(name, first, **paced) for name in names[1:]]
        for node in nodes:
            cluster.wait_until(
                lambda node=node: sum(one["health"] == "alive" for one in
                                      node.ask("nodes", "--json").json["nodes"]) == count,
                "all know each other")
        return nodes

    def train(self, node, count, top=""):
        done = node.ask("train", self.job_file(steps=STEPS, every=1000, nodes=count, top=top))
        self.assertEqual(done.code, 0, str(done))

    def step(self, node, members):
        """Waits for a step of that many members: who is slow to answer comes in at a later view."""
        def reached():
            shown = self.progress(node, "small")
            self.assertNotEqual(shown.get("phase"), "finished", str(shown))
            computes = shown.get("step", 0) >= 1 and len(shown.get("members", [])) == members
            return shown if computes else None
        return cluster.wait_until(reached, f"a step of {members} members")

    def kill_at_once(self, nodes):
        """One by one, who is left could go on in a view of two, in which it decides a tie."""
        for node in nodes:
            node.process.kill()
        for node in nodes:
            node.wait()

    def undisturbed(self):
        alone = self.world.start("alone")
        self.assertEqual(
            alone.ask("train", self.job_file(steps=STEPS, every=1000), "--follow").code, 0)
        digest = self.export(alone, STEPS)
        alone.kill()
        return digest



class Stopping(Orders):
    def test_a_job_that_is_stopped_goes_on_after_a_restart_of_all_with_the_same_bits(self):
        digest = self.undisturbed()
        nodes = self.start(2)
        self.train(nodes[0], 2)
        self.step(nodes[0], 2)
        self.assert_fails(nodes[0].ask("job", "resume", "small"), 1, "not stopped")
        stopped = nodes[1].ask("job", "stop", "small", "--json")
        self.assertEqual(stopped.code, 0, str(stopped))
        self.assertEqual(stopped.json["phase"], "stopped")
        step = stopped.json["step"]
        self.assertLess(step, STEPS)
        self.assertEqual(stopped.json["checkpoint_step"], step)
        for node in nodes:
            self.wait_for_phase(node, "small", "stopped")
        again = nodes[0].ask("job", "stop", "small", "--json")
        self.assertEqual((again.code, again.json["step"]), (0, step), str(again))
        for node in nodes:
            node.kill()
        nodes = [self.world.start("a"), self.world.start("b")]
        for node in nodes:
            line = self.wait_for_phase(node, "small", "stopped")
            self.assertIn(line["step"], (0, step))

        def resumed():
            done = nodes[0].ask("job", "resume", "small", "--json")
            return done if done.code == 0 else None
        done = cluster.wait_until(resumed, "the job goes on")
        # 0 as long as the node that answers is still reading the checkpoint.
        self.assertIn(done.json["step"], (0, step), str(done))
        self.wait_for_phase(nodes[0], "small")
        self.assertEqual(self.export(nodes[0], STEPS), digest)

    def test_a_job_that_waits_for_the_lost_goes_on_by_force_and_that_is_audited(self):
        digest = self.undisturbed()
        nodes = self.start(3)
        self.train(nodes[0], 3)
        self.step(nodes[0], 3)
        self.kill_at_once(nodes[1:])

        def stuck():
            shown = nodes[0].ask("job", "show", "small", "--json").json
            self.assertNotEqual(shown["phase"], "finished", str(shown["events"][-20:]))
            return shown if shown["phase"] == "paused" else None
        shown = cluster.wait_until(stuck, "the job waits")
        self.assertTrue(set(shown["waiting_for"]) <= {"b", "c"} and shown["waiting_for"], shown)
        asked = nodes[0].ask("job", "recover", "small")
        self.assert_fails(asked, 2, "--force")
        done = nodes[0].ask("job", "recover", "small", "--force", "--json")
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(done.json["generation"], 1)
        self.assertEqual(done.json["members"], ["a"])
        self.world.full_speed()
        found = self.recoveries("a")
        self.assertEqual([(line["name"], line["why"]) for line in found], [("small", "a person")])
        # The lost come back, yield, and take part in the new generation.
        second = self.world.start("b")
        line = self.wait_for_phase(second, "small")
        self.assertEqual(line["name"], "small")
        self.assertEqual(self.export(nodes[0], STEPS), digest)

    def recoveries(self, name):
        return self.world.audited(name, "job_recovered")

    def test_an_order_that_is_refused_is_audited_as_such(self):
        nodes = self.start(1)
        self.train(nodes[0], 1)
        self.step(nodes[0], 1)
        self.assert_fails(nodes[0].ask("job", "resume", "small"), 1, "not stopped")
        refused = cluster.wait_until(lambda: self.world.audited("a", "job_order_refused"),
                                     "it is audited")
        self.assertEqual([line["order"] for line in refused], ["job.resume"])
        self.assertIn("not stopped", refused[0]["reason"])

    def test_a_job_that_may_goes_on_without_a_quorum_by_itself_and_that_is_audited(self):
        digest = self.undisturbed()
        nodes = self.start(3)
        self.train(nodes[0], 3, top='on_lost_quorum = "continue"')
        self.step(nodes[0], 3)
        log = [event["text"] for event in nodes[0].ask("job", "log", "small", "--json")
               .json["events"]]
        self.assertTrue(any("on_lost_quorum" in line for line in log), log)
        self.kill_at_once(nodes[1:])
        self.world.full_speed()
        self.wait_for_phase(nodes[0], "small")
        self.assertEqual(self.export(nodes[0], STEPS), digest)
        self.assertEqual([line["why"] for line in self.recoveries("a")], ["on_lost_quorum"])


class Witnesses(Orders):
    def test_a_spare_node_votes_so_that_either_of_two_members_may_die(self):
        digest = self.undisturbed()
        nodes = self.start(3)
        self.train(nodes[0], 2)

        def witness():
            shown = self.progress(nodes[0], "small")
            return shown if shown.get("witnesses") else None
        shown = cluster.wait_until(witness, "a witness is named")
        by_name = {node.name: node for node in nodes}
        spare = by_name[shown["witnesses"][0]]
        self.assertNotIn(spare.name, shown["members"])
        self.wait_for_phase(spare, "small", "witness")
        # Whoever breaks ties dies; the other goes on with the witness.
        by_name[shown["members"][0]].kill()
        self.world.full_speed()
        other = by_name[shown["members"][1]]
        self.wait_for_phase(other, "small")
        self.assertEqual(self.export(other, STEPS), digest)


if __name__ == "__main__":
    cluster.main()
