"""The last members of a job die: it goes on by itself where it can, else it says what it waits for.
"""
import signal

import cluster
import training


class TheLast(training.TrainingTest):
    steps, every = 400, 20

    def begin(self, names):
        self.undisturbed()
        self.start_nodes(names)
        self.pace(50)
        self.train(self.nodes[names[0]], len(names))
        for node in self.nodes.values():
            self.await_members(node, names)
            cluster.wait_until(lambda node=node: node.ask("checkpoint", "ls", "--json")
                               .json["checkpoints"], "a checkpoint is here")
        return [self.nodes[name] for name in names]

    def kill(self, node):
        node.signal(signal.SIGKILL)
        self.assertEqual(node.wait(), -signal.SIGKILL)

    def end(self):
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.PATIENCE)

    def await_running(self, node):
        return self.await_line(node, lambda line: line["phase"] == "running", "it runs")

    def test_a_lone_member_is_killed_and_goes_on_from_its_checkpoint(self):
        node, = self.begin(["n1"])
        reached = self.line(node)["step"]
        self.kill(node)
        node = self.start_node("n1")
        self.await_running(node)
        resumed = self.log(node).views[-1].base
        self.assertGreater(resumed, 0, "not from the beginning")
        self.assertEqual(resumed % self.every, 0)
        self.assertLessEqual(resumed, reached + self.every)
        self.end()

    def kill_one_after_the_other(self, first_to_die):
        first, second = self.begin(["n1", "n2"])
        tie = self.log(first).views[-1].tie
        dies, stays = (first, second) if (first.name == tie) == (first_to_die == "tie") else (
            second, first)
        self.kill(dies)
        if first_to_die == "tie":
            line = self.await_line(stays, lambda line: line["phase"] == "paused", "one waits")
            self.assertTrue(line["reason"], "it says why")
        else:
            self.await_members(stays, [stays.name])
            reached = self.line(stays)["step"]
            self.await_line(stays, lambda line: line["step"] > reached + 25, "it goes on alone")
        self.kill(stays)
        return dies, stays

    def test_of_two_the_tie_member_is_killed_and_then_the_other(self):
        dies, stays = self.kill_one_after_the_other("tie")
        stays = self.start_node(stays.name)
        line = self.await_line(stays, lambda line: line["phase"] == "paused", "it waits")
        self.assertTrue(line["reason"], "it says why")
        dies = self.start_node(dies.name)
        for node in (stays, dies):
            self.await_running(node)
        self.end()

    def test_of_two_the_other_is_killed_and_then_the_tie_member(self):
        dies, stays = self.kill_one_after_the_other("other")
        alone = max(one["step"] for one in stays.ask("checkpoint", "ls", "--json")
                    .json["checkpoints"])
        dies = self.start_node(dies.name)
        # The one that died first may not go on: the other has committed more since.
        line = self.await_line(dies, lambda line: line["phase"] == "paused", "it waits")
        self.assertTrue(line["reason"], "it says why")
        stays = self.start_node(stays.name)
        for node in (stays, dies):
            self.await_running(node)
        self.assertGreaterEqual(self.log(stays).views[-1].base, alone)
        self.end()

    def test_every_member_is_killed_at_once(self):
        nodes = self.begin(["n1", "n2", "n3"])
        for node in nodes:
            node.signal(signal.SIGKILL)
        for node in nodes:
            node.wait()
        first = self.start_node("n1")
        line = self.await_line(first, lambda line: line["phase"] == "paused", "one of three waits")
        self.assertTrue(line["reason"], "it says why")
        for name in ("n2", "n3"):
            self.start_node(name)
        for node in self.nodes.values():
            self.await_running(node)
        self.assertGreater(self.log(first).views[-1].base, 0)
        self.end()


if __name__ == "__main__":
    cluster.main()
