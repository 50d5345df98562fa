"""Exchange modes: members stay alike through a kill, and say what they are. By site: exact."""
import signal

import cluster


class Modes(cluster.ProcessTest):
    def shown(self, node):
        return node.ask("job", "show", "small", "--json").json

    def run_through_a_kill(self, mode, steps=400, more=""):
        """Three members, one of them killed in between; the reports of the two others at the end."""
        paced = self.world.slow_steps(30_000 // steps)
        a = self.world.start("a", **paced)
        b, c = self.world.join("b", a, **paced), self.world.join("c", a, **paced)
        cluster.wait_until(lambda: all(self.sees_all(node) for node in (a, b, c)), "all are seen")
        path = self.job_file(steps=steps, every=100, nodes=3,
                             extra=f'\n[exchange]\nmode = "{mode}"\n{more}')
        started = a.ask("train", path, "--json")
        self.assertEqual(started.code, 0, str(started))
        cluster.wait_until(lambda: len(self.shown(a).get("members", [])) == 3 and
                           self.shown(a)["step"] >= 5, "three members train")
        c.signal(signal.SIGKILL)
        c.wait()
        before = self.shown(a)["step"]
        self.assertLess(before, steps, "the job was over before the kill")
        self.world.full_speed()
        for node in (a, b):
            self.wait_for_phase(node, "small")
        reports = [self.shown(node) for node in (a, b)]
        self.assertEqual(reports[0]["state_digest"], reports[1]["state_digest"])
        for report in reports:
            self.assertEqual(report["step"], steps)
            self.assertEqual(sorted(report["members"]), ["a", "b"])
            self.assertEqual(report["exchange_mode"], mode)
            self.assert_says(report["exchange_note"], mode, "not exact", "who takes part")
            self.assertTrue(report["proof"]["equal_to_data"], report["proof"])
            self.assert_says(str([event["text"] for event in report["events"]]), "not exact")
        return reports

    def sees_all(self, node, count=3):
        seen = node.ask("nodes", "--json").json["nodes"]
        return len(seen) == count and all(one["health"] == "alive" for one in seen)

    def state_of_one_alone(self, node, name="alone", **settings):
        """The state that an undisturbed exact run on that node ends with."""
        started = node.ask("train", self.job_file(name=name, **settings), "--json")
        self.assertEqual(started.code, 0, str(started))
        self.wait_for_phase(node, name)
        return node.ask("job", "show", name, "--json").json["state_digest"]

    def test_ring_through_a_kill(self):
        self.run_through_a_kill("ring")

    def test_sums_by_site_through_a_kill_are_exact(self):
        """Two racks of two, one node of a rank in between killed: the bits of one node alone."""
        steps = 300
        paced = self.world.slow_steps(30_000 // steps)
        a = self.world.start("a", "up", "--label", "rack=1", **paced)
        b, c, d = (self.world.join(name, a, flags=("--label", "rack=" + rack), **paced)
                   for name, rack in (("b", "2"), ("c", "1"), ("d", "2")))
        nodes = (a, b, c, d)
        cluster.wait_until(lambda: all(self.sees_all(node, 4) for node in nodes), "all are seen")
        path = self.job_file(steps=steps, every=100, nodes=4, extra='\n[exchange]\n'
                             'mode = "hierarchical"\ngroup_by = "rack"\n')
        started = a.ask("train", path, "--json")
        self.assertEqual(started.code, 0, str(started))

        def groups(node):
            shown = self.shown(node)
            return sorted(sorted(group) for group in shown.get("exchange_groups", []))
        cluster.wait_until(lambda: groups(a) == [["a", "c"], ["b", "d"]], "the racks are known")
        b.signal(signal.SIGKILL)
        b.wait()
        before = self.shown(a)["step"]
        self.assertLess(before, steps, "the job was over before the kill")
        self.world.full_speed()
        for node in (a, c, d):
            self.wait_for_phase(node, "small")
        reports = [self.shown(node) for node in (a, c, d)]
        for report in reports:
            self.assertEqual(report["step"], steps)
            self.assertEqual(sorted(report["members"]), ["a", "c", "d"])
            self.assertEqual(report["exchange_mode"], "hierarchical")
            self.assertNotIn("exchange_note", report)  # it is exact
            self.assertTrue(report["proof"]["equal_to_data"], report["proof"])
        self.assertEqual(groups(a), [["a", "c"], ["d"]])
        alone = self.state_of_one_alone(a, steps=steps, every=100)
        self.assertEqual({report["state_digest"] for report in reports}, {alone})

    def test_int8_through_a_kill(self):
        self.run_through_a_kill("int8")

    def test_local_rounds_through_a_kill(self):
        self.run_through_a_kill("local", steps=60, more="inner_steps = 10\n")

    def test_local_rounds_behind_the_next_one_through_a_kill(self):
        self.run_through_a_kill("local", steps=60, more="inner_steps = 10\nrounds_ahead = 1\n")

    def test_topk_through_a_kill(self):
        self.run_through_a_kill("topk")

    def test_a_mode_that_is_not_there_is_refused_by_name(self):
        a = self.world.start("a")
        path = self.job_file(extra='\n[exchange]\nmode = "rings"\n')
        self.assert_fails(a.ask("train", path), 1, "rings", "did you mean 'ring'?",
                          "exact, ring, hierarchical, bf16, int8, topk, local")
        self.assertEqual(a.ask("jobs", "--json").json["jobs"], [])


if __name__ == "__main__":
    cluster.main()
