"""SIGTERM, SIGINT twice, SIGKILL and the background: what ends how, and that nothing is lost."""
import os
import signal
import time

import cluster


class Signals(cluster.ProcessTest):
    def health_of(self, node, name):
        for one in node.ask("nodes", "--json").json["nodes"]:
            if one["name"] == name:
                return one["health"]
        return None

    def test_sigterm_leaves_politely(self):
        first = self.world.start("first")
        second = self.world.join("second", first)
        cluster.wait_until(lambda: self.health_of(first, "second") == "alive", "second is seen")
        second.signal(signal.SIGTERM)
        self.assertEqual(second.wait(), 0)
        cluster.wait_until(lambda: self.health_of(first, "second") in ("left", None), "it has left")

    def test_a_node_that_ends_before_its_first_link_stands_has_left_all_the_same(self):
        first = self.world.start("first")
        second = self.world.join("second", first)
        for _ in range(3):
            cluster.wait_until(lambda: self.health_of(first, "second") == "alive", "second is seen")
            second.kill()
            cluster.wait_until(lambda: self.health_of(first, "second") == "dead", "it is dead")
            second = self.world.start("second")
            second.signal(signal.SIGTERM)
            self.assertEqual(second.wait(), 0)
            cluster.wait_until(lambda: self.health_of(first, "second") == "left", "it has left")
            second = self.world.start("second")

    def test_leave_ends_the_node_with_code_0(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("leave").code, 0)
        self.assertEqual(node.wait(), 0)
        self.assertEqual(node.ask("nodes").code, 3)

    def test_sigint_twice_ends_at_once(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=100000, every=1000)).code, 0)
        node.signal(signal.SIGINT)
        cluster.wait_until(lambda: "once more" in node.said() or node.process.poll() is not None,
                           "the first is heard")
        node.signal(signal.SIGINT)
        self.assertIn(node.wait(30), (0, 128 + signal.SIGINT))
        again = self.world.start("a")
        self.assertEqual(again.info["id"], node.info["id"])

    def test_sigkill_at_any_time_loses_no_identity_and_no_durable_step(self):
        node = self.world.start("a")
        job = node.ask("train", self.job_file(steps=3000, every=50), "--json").json["job"]
        boots = [node.ask("nodes", "--json").code]
        self.assertEqual(boots, [0])
        for pause in (0.3, 0.05, 0.7):
            cluster.wait_until(lambda: node.ask("jobs").code == 0, "it answers")
            time.sleep(pause)  # the moment is the test's parameter
            before = node.ask("checkpoint", "ls", "--json").json["checkpoints"]
            node.kill()
            kept = node.ask("checkpoint", "verify", "--json").json
            self.assertTrue(kept["ok"], kept)
            steps = [one["step"] for one in kept["checkpoints"]]
            if before:
                self.assertGreaterEqual(max(steps), max(one["step"] for one in before))
            again = self.world.start("a")
            self.assertEqual(again.info["id"], node.info["id"])
            node = again
            shown = node.ask("jobs", "--json").json["jobs"]
            self.assertEqual([one["job"] for one in shown], [job])

    def test_a_planned_kill_strikes_at_its_point_and_the_job_goes_on_after_a_restart(self):
        log = self.world.path("faults")
        node = self.world.start("a", faulty=True, env={"GPUNODE_FAULT": "kill@compute:7",
                                                       "GPUNODE_FAULT_LOG": log})
        self.assertEqual(node.ask("train", self.job_file(steps=20, every=5)).code, 0)
        self.assertEqual(node.wait(), -signal.SIGKILL)
        with open(log, encoding="utf-8") as stream:
            self.assertEqual(stream.read().split(), [str(node.process.pid), "kill", "compute", "7"])
        again = self.world.start("a")
        self.assertEqual(again.info["id"], node.info["id"])
        self.wait_for_phase(again, "small")
        self.assertTrue(again.ask("job", "show", "small", "--json").json["proof"]["equal_to_data"])

    def test_sigkill_while_starting_is_safe(self):
        for _ in range(3):
            node = self.world.launch("a", "up", "--listen", "127.0.0.1:0")
            cluster.wait_until(lambda: os.path.exists(self.world.state("a")), "it begins")
            node.kill()
        again = self.world.start("a")
        self.assertEqual(again.ask("nodes").code, 0)

    def test_a_machine_without_a_driver_says_so_once_and_works(self):
        if os.path.exists("/proc/driver/nvidia"):
            self.skipTest("this machine has a driver")
        node = self.world.start("a")
        cluster.wait_until(lambda: "no GPU driver" in node.said(), "it is said")
        self.assertEqual(node.ask("train", self.job_file(steps=10), "--follow").code, 0)
        self.assertEqual(node.said().count("no GPU driver"), 1)


class Background(cluster.ProcessTest):
    def up(self, *flags):
        return self.world.run("up", "--detach", "--state", self.world.state("a"), "--listen",
                              "127.0.0.1:0", "--json", *flags)

    def test_detach_returns_when_the_node_is_up_and_leaves_no_terminal(self):
        started = self.up()
        self.assertEqual(started.code, 0, str(started))
        pid = started.json["pid"]
        self.world.detached.append(pid)
        state = ["--state", self.world.state("a")]
        self.assertEqual(self.world.run("nodes", *state).code, 0)
        self.assertEqual(os.getsid(pid), pid)
        self.assertTrue(os.readlink(f"/proc/{pid}/fd/2").endswith("a/node.log"))
        self.assertEqual(os.stat(self.world.path("a/node.log")).st_mode & 0o777, 0o600)
        self.assertEqual(self.world.run("leave", *state).code, 0)
        cluster.wait_until(lambda: cluster.gone(pid), "it has ended")

    def test_a_failure_of_the_child_is_the_failure_of_the_command(self):
        node = self.world.start("a")
        result = self.up()
        self.assertEqual(result.code, 1)
        self.assertFalse(result.json["ok"])
        self.assertIn("in use", result.json["error"]["detail"])
        self.assertEqual(node.ask("nodes").code, 0)


if __name__ == "__main__":
    cluster.main()
