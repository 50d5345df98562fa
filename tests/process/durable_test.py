"""Nodes die beside the moment in which a checkpoint becomes durable, and one soon after the other.

What was reported durable is where the job goes on, or it says for whom it waits; what was on one
disk alone may be lost, but no other weights ever come out. A killed process loses nothing that it
wrote: what the disk itself may lose is the matter of tests/sim.
"""
import signal
import time

import cluster
import training


class Durable(training.TrainingTest):
    steps, every = 200, 20
    pace_at = "slice"

    def begin(self, names, members, pace):
        self.undisturbed()
        self.start_nodes(names)
        self.ids = {one["name"]: one["id"][:8]
                    for one in self.nodes[names[0]].ask("nodes", "--json").json["nodes"]}
        self.pace(pace)
        self.train(self.nodes[names[0]], members)

    def shown(self, node):
        told = node.ask("job", "show", "small", "--json")
        return told.json if told.code == 0 else {}

    def await_durable(self, node, nodes, after=0):
        """The first step after that one that the node tells to be on so many disks."""
        def told():
            durable = self.shown(node).get("durable", {})
            return durable if durable.get("step", 0) > after else None
        durable = self.wait_until(told, "a checkpoint is durable", every=0.01)
        self.assertGreaterEqual(durable["nodes"], nodes)
        return durable["step"]

    def kill(self, *nodes):
        for node in nodes:
            node.signal(signal.SIGKILL)
        for node in nodes:
            self.assertEqual(node.wait(), -signal.SIGKILL)

    def await_waiting(self, node, *others):
        """It stands still, and says why, and for whom by name or id."""
        known = [{one.name, self.ids[one.name]} for one in others]

        def waits():
            told = self.shown(node)
            names = told.get("waiting_for", [])
            return (told.get("phase") == "paused" and told.get("reason") and
                    len(names) == len(known) and
                    all(any(name in one for one in known) for name in names))
        self.wait_until(waits, f"{node.name} waits for {known}")

    def await_running(self, node):
        return self.await_line(node, lambda line: line["phase"] == "running", "it runs")

    def last_view(self, node):
        return self.log(node).views[-1]

    def end(self):
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)

    # ---- as soon as it is reported durable

    def test_both_holders_die_as_soon_as_it_is_durable_and_it_is_where_they_go_on(self):
        self.begin(["n1", "n2"], 2, 100)
        first, second = self.nodes.values()
        step = self.await_durable(first, 2)
        self.kill(first, second)
        first = self.start_node("n1")
        self.await_waiting(first, second)
        # It tells what it knew before, and of when that is.
        before = self.shown(first)
        self.assertEqual(before["as_of"]["text"], "before this node was started again")
        time.sleep(1)  # of ten steps
        shown = self.shown(first)
        for key in ("step", "computed"):
            self.assertEqual(shown[key], before[key], "it computes nothing")
        second = self.start_node("n2")
        for node in (first, second):
            self.await_running(node)
        self.assertEqual(self.last_view(first).base, step)
        self.end()

    def test_the_member_and_its_copies_die_as_soon_as_it_is_durable(self):
        """One member and two spare nodes: any two of them go on, and one alone does not."""
        self.begin(["n1", "n2", "n3"], 1, 100)
        nodes = list(self.nodes.values())
        name, = self.await_line(nodes[0], lambda line: len(line["members"]) == 1, "a member")[
            "members"]
        step = self.await_durable(self.nodes[name], 2)
        self.kill(*nodes)
        spares = [one for one in self.nodes if one != name]
        alone = self.start_node(spares[0])
        self.await_waiting(alone, *(self.nodes[one] for one in (name, spares[1])))
        second = self.start_node(spares[1])
        self.await_one_of((alone, second), step)
        self.start_node(name)
        self.end()

    def await_one_of(self, nodes, least):
        """One of them runs, and from where the job was durable."""
        def runs():
            for node in nodes:
                line = self.line(node)
                if line and line["phase"] == "running":
                    return node
            return None
        self.assertGreaterEqual(self.last_view(self.wait_until(runs, "one runs")).base, least)

    # ---- before it is durable

    def lone_member_dies_with_a_checkpoint_that_nobody_has(self, durable_before):
        self.begin(["n1", "n2", "n3"], 1, 100)
        told = self.wait_until(
            lambda: next((told for told in map(self.shown, self.nodes.values())
                          if len(told.get("witnesses", [])) == 2), None), "the spares vote")
        member = self.nodes[told["members"][0]]
        spares = [node for node in self.nodes.values() if node is not member]
        durable = self.await_durable(member, 2) if durable_before else 0
        # All is written and has its name, and no other node has heard of it.
        self.order(member.name, "kill", "checkpoint.renamed")
        self.assertEqual(member.wait(), -signal.SIGKILL)
        lost = int(self.hits()[0][3])
        self.assertGreater(lost, durable)
        line = None

        def goes_on():
            nonlocal line
            line = next((one for one in map(self.line, spares) if one and
                         one["phase"] == "running" and member.name not in one["members"]), None)
            return line
        self.wait_until(goes_on, "a spare node goes on")
        taker = self.nodes[line["members"][0]]
        self.assertEqual(self.last_view(taker).base, durable)
        self.start_node(member.name)
        self.end()

    def hits(self):
        with open(self.path("hits"), encoding="utf-8") as told:
            return [line.split() for line in told]

    def test_a_lone_member_dies_before_its_first_checkpoint_has_a_copy(self):
        self.lone_member_dies_with_a_checkpoint_that_nobody_has(durable_before=False)

    def test_a_lone_member_dies_before_a_later_checkpoint_has_a_copy(self):
        self.lone_member_dies_with_a_checkpoint_that_nobody_has(durable_before=True)

    # ---- one soon after the other

    def test_both_members_die_five_seconds_apart_beside_one_spare_node(self):
        self.begin(["n1", "n2", "n3"], 2, 100)
        members = self.await_line(self.nodes["n1"], lambda line: len(line["members"]) == 2,
                                  "two members")["members"]
        first, second = (self.nodes[name] for name in members)
        left = next(node for node in self.nodes.values() if node not in (first, second))
        step = self.await_durable(first, 2)
        died = time.time()
        self.kill(first)
        time.sleep(5)  # the schedule: whatever the others have agreed on by then
        self.kill(second)

        def settled():
            told = self.shown(left)
            waits = told.get("phase") == "paused" and told.get("reason") and told["waiting_for"]
            return waits or (told.get("phase") == "running" and told["members"] == [left.name])
        self.wait_until(settled, "who is left goes on, or says for whom it waits")
        for node in (first, second):
            self.start_node(node.name)
        for name in self.nodes:
            self.await_line(self.nodes[name], lambda line: line["step"] > step, "it goes on")
        for node in self.nodes.values():
            later = self.wait_until(
                lambda node=node: [view.base for view in self.log(node).views if view.at > died],
                "a view since")  # what is durable is told before
            self.assertGreaterEqual(min(later), step, self.log(node).text())
        self.end()


if __name__ == "__main__":
    cluster.main()
