"""The last members of a job die: it goes on by itself where it can, else it says what it waits for.
"""
import signal

import cluster
import training


class TheLast(training.TrainingTest):
    steps, every = 400, 20

    def begin(self, names, spares=()):
        self.undisturbed()
        self.start_nodes([*names, *spares])
        self.ids = {one["name"]: one["id"][:8]
                    for one in self.nodes[names[0]].ask("nodes", "--json").json["nodes"]}
        self.pace(50)
        self.train(self.nodes[names[0]], len(names))
        if not spares:
            for node in self.nodes.values():
                self.await_members(node, names)
        for node in self.nodes.values():
            cluster.wait_until(lambda node=node: node.ask("checkpoint", "ls", "--json")
                               .json["checkpoints"], f"{node.name} holds a checkpoint")
        return [self.nodes[name] for name in names]

    def shown(self, node):
        told = node.ask("job", "show", "small", "--json")
        return told.json if told.code == 0 else {}

    def members(self):
        """Of a job that is full and has spare nodes that hold its newest durable checkpoint."""
        def so_far():
            for node in self.nodes.values():
                told = self.shown(node)
                if told.get("durable", {}).get("nodes", 0) > len(told["members"]):
                    return told
            return None
        told = self.wait_until(so_far, "a checkpoint outlives the members")
        self.assertGreater(told["durable"]["step"], 0)
        return [self.nodes[name] for name in told["members"]], told["durable"]["step"]

    def await_others(self, without, durable):
        """The nodes that are left go on from the durable checkpoint or later, by themselves."""
        left = [node for node in self.nodes.values() if node not in without]
        gone = {node.name for node in without}

        def goes_on():
            for node in left:
                line = self.line(node)
                if line and line["phase"] == "running" and not gone & set(line["members"]):
                    return node
            return None
        node = self.wait_until(goes_on, "others go on")
        base = self.log(node).views[-1].base
        self.assertGreaterEqual(base, durable)
        reached = self.line(node)["step"]
        self.await_line(node, lambda line: line["step"] > max(reached, base) + 5, "it goes on")

    def kill(self, node):
        node.signal(signal.SIGKILL)
        self.assertEqual(node.wait(), -signal.SIGKILL)

    def end(self):
        self.end_with(list(self.nodes.values()))

    def end_with(self, nodes):
        self.pace(None)
        self.check_all(nodes, 2 * cluster.TIMEOUT)

    def await_running(self, node):
        return self.await_line(node, lambda line: line["phase"] == "running", "it runs")

    def test_a_lone_member_is_killed_and_a_spare_node_takes_the_job_up(self):
        self.begin(["n1"], ["n2", "n3"])
        (member,), durable = self.members()
        self.kill(member)
        self.await_others([member], durable)
        back = self.start_node(member.name)
        self.await_line(back, lambda line: member.name not in line["members"], "it yields")
        self.end()

    def test_of_two_with_spare_nodes_both_are_killed_one_after_the_other(self):
        self.begin(["n1", "n2"], ["n3", "n4", "n5"])
        (first, second), durable = self.members()
        self.kill(first)
        self.await_line(second, lambda line: first.name not in line["members"], "one is out")
        self.kill(second)
        self.await_others([first, second], durable)
        for node in (first, second):
            self.start_node(node.name)
        self.end()

    def test_a_lone_member_is_killed_and_goes_on_from_its_checkpoint(self):
        node, = self.begin(["n1"])
        self.kill(node)
        node = self.start_node("n1")
        self.await_running(node)
        resumed = self.log(node).views[-1].base
        self.assertGreater(resumed, 0, "not from the beginning")
        self.assertEqual(resumed % self.every, 0)
        self.end()

    def await_waiting(self, node, *others):
        """It stands still, and says why and for whom: by name, or id if it has not heard of it
        since it was started."""
        names = {one.name for one in others}
        name_of = {**{name: name for name in self.ids},
                   **{id: name for name, id in self.ids.items()}}

        def waits():
            told = self.shown(node)
            return (told.get("phase") == "paused" and told.get("reason")
                    and {name_of.get(one) for one in told["waiting_for"]} == names)
        try:
            cluster.wait_until(waits, f"{node.name} waits for {names}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.shown(node)}\n{self.told()}") from None
        text = node.ask("job", "show", "small").out
        told = next(line for line in text.splitlines() if "waiting for " in line)
        for name in names:
            self.assertRegex(told.split("waiting for ")[1], f"{name}|{self.ids[name]}")

    def kill_one_after_the_other(self, first_to_die):
        first, second = self.begin(["n1", "n2"])
        tie = self.log(first).views[-1].tie
        dies, stays = (first, second) if (first.name == tie) == (first_to_die == "tie") else (
            second, first)
        self.kill(dies)
        if first_to_die == "tie":
            self.await_waiting(stays, dies)
        else:
            self.await_members(stays, [stays.name])
            reached = self.line(stays)["step"]
            self.await_line(stays, lambda line: line["step"] > reached + 25, "it goes on alone")
        self.kill(stays)
        return dies, stays

    def test_of_two_the_tie_member_is_killed_and_then_the_other(self):
        dies, stays = self.kill_one_after_the_other("tie")
        stays = self.start_node(stays.name)
        self.await_waiting(stays, dies)
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
        self.await_waiting(dies, stays)
        stays = self.start_node(stays.name)
        for node in (stays, dies):
            self.await_running(node)
        self.assertGreaterEqual(self.log(stays).views[-1].base, alone)
        self.end()

    def test_one_that_was_away_at_the_end_gets_the_result_of_restarted_nodes(self):
        nodes = self.begin(["n1", "n2", "n3"])
        self.kill(nodes[2])
        self.await_members(nodes[0], ["n1", "n2"])
        self.end_with(nodes[:2])
        for node in nodes[:2]:
            self.kill(node)
        for name in ("n1", "n2", "n3"):
            self.start_node(name)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)

    def test_every_member_is_killed_at_once(self):
        nodes = self.begin(["n1", "n2", "n3"])
        for node in nodes:
            node.signal(signal.SIGKILL)
        for node in nodes:
            node.wait()
        first = self.start_node("n1")
        self.await_waiting(first, *nodes[1:])
        for name in ("n2", "n3"):
            self.start_node(name)
        for node in self.nodes.values():
            self.await_running(node)
        self.assertGreater(self.log(first).views[-1].base, 0)
        self.end()


if __name__ == "__main__":
    cluster.main()
