"""Jobs that want more than there is wait in the queue, and start by themselves, once."""
import signal

import cluster


class Queue(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.ports = {}

    def start(self, name, through=None, flags=()):
        """The same node again, at the same ports, where it was there before."""
        if name in self.ports:
            return self.world.start(name, listen=self.ports[name])
        self.ports[name] = f"127.0.0.1:{cluster.free_port_range()}"
        if through is None:
            return self.world.start(name, "up", *flags, listen=self.ports[name])
        return self.world.join(name, through, flags=flags, listen=self.ports[name])

    def submit(self, node, name="small", nodes=2, steps=20, **changes):
        done = node.ask("train", self.job_file(name, steps=steps, nodes=nodes, min_nodes=nodes,
                                               **changes), "--json")
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(done.json["phase"], "waiting", str(done))
        return done.json

    def lines(self, node, name="small"):
        return [one for one in node.ask("jobs", "--json").json["jobs"] if one["name"] == name]

    def assert_started_once(self, nodes, waiting, name="small"):
        """It is finished, known to all under one id, and the id that it waited under means it."""
        ids = set()
        for node in nodes:
            line = self.wait_for_phase(node, name)
            self.assertEqual(len(self.lines(node, name)), 1, self.lines(node, name))
            ids.add(line["job"])
            shown = node.ask("job", "show", waiting["job"], "--json")
            self.assertEqual(shown.json["job"], line["job"], str(shown))
        self.assertEqual(len(ids), 1, ids)

    def test_a_job_waits_for_nodes_says_so_and_starts_when_they_come(self):
        a = self.start("a")
        refused = a.ask("train", self.job_file(nodes=2, min_nodes=2), "--no-wait")
        self.assert_fails(refused, 1, "at least 2 nodes, 1 can take part")
        self.assertEqual(self.lines(a), [])
        told = self.submit(a)
        self.assert_says(told["reason"], "at least 2 nodes, 1 can take part")
        self.assertEqual(told["held_by"], ["a"])
        self.assertEqual(self.lines(a)[0]["phase"], "waiting")
        self.assert_says(self.lines(a)[0]["reason"], "at least 2 nodes")
        self.assert_fails(a.ask("train", self.job_file()), 1, "running or waits")
        self.assert_fails(a.ask("job", "stop", "small"), 1, "waits in the queue", "job rm small")
        follower = self.world.launch_command(a, "job", "follow", "small")
        b = self.start("b", a)
        self.assert_started_once([a, b], told)
        self.assertEqual(follower.wait(cluster.TIMEOUT), 0)

    def test_one_that_only_waits_for_a_label_or_can_never_start_is_told_apart(self):
        a = self.start("a")
        told = self.submit(a, nodes=1, top='labels = ["gpu"]')
        self.assert_says(told["reason"], "does not carry the job's labels")
        lost = a.ask("train", self.job_file("lost", data="/nowhere/at/all"))
        self.assert_fails(lost, 1, "/nowhere/at/all")
        b = self.start("b", a, flags=("--label", "gpu"))
        self.wait_for_phase(b, "small")
        self.assertEqual([one["name"] for one in a.ask("jobs", "--json").json["jobs"]], ["small"])

    def test_it_outlives_its_submitter_and_starts_once(self):
        a = self.start("a")
        b = self.start("b", a)
        c = self.start("c", a)
        told = self.submit(a, nodes=4)
        self.assertEqual(sorted(told["held_by"]), ["a", "b", "c"])
        a.kill()
        d = self.start("d", b)
        self.assertEqual(self.lines(b)[0]["phase"], "waiting")
        e = self.start("e", b)
        self.assert_started_once([b, c, d, e], told)
        a = self.start("a")
        self.assert_started_once([a, b], told)

    def test_every_holder_says_what_it_waits_for_also_after_its_submitter_is_gone(self):
        a = self.start("a")
        b = self.start("b", a)
        c = self.start("c", a)
        self.submit(a, nodes=4)

        def all_say(nodes, count):
            for node in nodes:
                cluster.wait_until(lambda node=node: f"{count} are here" in
                                   self.lines(node)[0].get("reason", ""),
                                   f"{node.name} says why it waits")
                self.assert_fails(node.ask("job", "stop", "small"), 1, f"{count} are here")
        all_say([a, b, c], 3)
        a.kill()
        all_say([b, c], 2)
        all_say([self.start("a"), b, c], 3)

    def test_it_is_there_again_after_a_restart_of_all(self):
        a = self.start("a")
        b = self.start("b", a)
        told = self.submit(a, nodes=3)
        for node in (a, b):
            node.kill()
        a, b = self.start("a"), self.start("b")
        for node in (a, b):
            self.assertEqual(self.lines(node)[0]["phase"], "waiting")
        c = self.start("c", b)
        self.assert_started_once([a, b, c], told)

    def test_one_that_is_taken_out_does_not_start(self):
        a = self.start("a")
        self.submit(a)
        removed = a.ask("job", "rm", "small", "--json")
        self.assertEqual(removed.json["removed_on"], ["a"], str(removed))
        self.assertEqual(self.lines(a), [])
        later = self.submit(a, "later")
        b = self.start("b", a)
        self.assert_started_once([a, b], later, "later")
        self.assertEqual(self.lines(b), [])
        self.assertEqual(self.lines(a), [])

    def test_jobs_start_in_the_order_in_which_they_were_submitted(self):
        a = self.start("a")
        names = ["first", "second", "third"]
        for name in names:
            self.submit(a, name, steps=200)
        b = self.start("b", a)
        starts = {}
        for name in names:
            self.wait_for_phase(b, name)
            # Not by first commits: on a busy machine who started later may be the first to make one.
            starts[name] = a.said().index(f"{name} starts from the queue")
        self.assertEqual(sorted(names, key=starts.get), names)
        a.signal(signal.SIGTERM)
        a.wait()


if __name__ == "__main__":
    cluster.main()
