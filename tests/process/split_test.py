"""The network falls into two halves: who goes on, who waits, and that never both commit.

Links are cut through a switch. The half that has the tie member goes on; the other pauses, says so,
keeps answering inference, and comes back by itself once the network heals.
"""
import cluster
import link_faults
import training


class EvenSplit(training.TrainingTest):
    switched = True
    steps, every = 700, 20

    def split(self, count):
        self.undisturbed()
        names = [f"n{i}" for i in range(1, count + 1)]
        self.start_nodes(names)
        link_faults.wait_for_links(self.switch, names)
        self.pace(60)
        self.train(self.nodes["n1"], count)
        for node in self.nodes.values():
            self.await_members(node, names)
        self.serve_everywhere()
        tie = self.log(self.nodes["n1"]).views[-1].tie
        others = [name for name in names if name != tie]
        side = [tie] + others[:count // 2 - 1]
        return side, [name for name in names if name not in side]

    def serve_everywhere(self):
        """Each node answers by itself, so that no half depends on the other."""
        for node in self.nodes.values():
            cluster.wait_until(lambda node=node: node.ask("checkpoint", "ls", "--json")
                               .json["checkpoints"], "a checkpoint is here")
            self.assertEqual(node.ask("serve", "small").code, 0)

    def assert_answers(self, node):
        told = node.ask("generate", "--model", "small", "--max-tokens", "5", "--timeout", "10s",
                        "--json")
        self.assertEqual(told.code, 0, str(told))
        self.assertEqual(told.json["tokens"], 5)

    def go_through(self, count):
        side, rest = self.split(count)
        last_together = self.log(self.nodes[side[0]]).views[-1].id
        self.switch.split(side, rest)
        for name in side:
            self.await_members(self.nodes[name], side)
        for name in rest:
            self.await_line(self.nodes[name], lambda line: line["phase"] == "paused", "it pauses")
        waiting = {name: self.line(self.nodes[name]) for name in rest}
        reached = self.line(self.nodes[side[0]])["step"]
        self.await_line(self.nodes[side[0]], lambda line: line["step"] >= reached + 20,
                        "one half goes on")
        for name in rest:
            node, before = self.nodes[name], waiting[name]
            self.assert_answers(node)
            line = self.line(node)
            self.assertEqual((line["phase"], line["step"]), ("paused", before["step"]))
            self.assertTrue(line.get("reason"), "it says why")
        for name in side:
            self.assert_answers(self.nodes[name])
        self.switch.heal()
        for node in self.nodes.values():
            self.await_members(node, list(self.nodes))
            self.await_line(node, lambda line: line["phase"] == "running", "it computes again")
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)
        self.check_nobody_committed_apart(side, rest, last_together)

    def check_nobody_committed_apart(self, side, rest, last_together):
        """What the paused half committed in the last common view is what the others resumed from."""
        after = next(view for view in self.log(self.nodes[side[0]]).views
                     if view.id > last_together)
        self.assertEqual(sorted(after.members), sorted(side))
        others = self.states(self.log(self.nodes[side[0]]))
        for name in rest:
            log = self.log(self.nodes[name])
            common = [one["step"] for one in log.commits if one["view"] == last_together]
            self.assertLessEqual(max(common), after.base)
            again = next(view for view in log.views
                         if view.id > last_together and name in view.members)
            self.assertGreater(again.base, after.base + 10, "the other half went on without it")
            # What it tells of the time that it was away is what the others did.
            self.assertEqual([one for one in self.states(log) - others
                              if last_together < one[1] < again.id], [])

    def states(self, log):
        return {(one["step"], one["view"], one["state_digest"]) for one in log.commits
                if "state_digest" in one}

    def test_of_two_nodes(self):
        self.go_through(2)

    def test_of_four_nodes(self):
        self.go_through(4)


if __name__ == "__main__":
    cluster.main()
