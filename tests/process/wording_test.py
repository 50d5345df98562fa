"""What people read: whole lines, names beside ids, plain words, and one advice once."""
import os
import re
import stat
import signal
import subprocess

import cluster


class Wording(cluster.ProcessTest):
    def finished(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=20)).code, 0)
        self.assertEqual(node.ask("job", "wait", "small").code, 0)
        return node

    def test_a_text_that_is_generated_ends_its_line_also_into_a_pipe(self):
        node = self.finished()
        self.assertEqual(node.ask("serve", "small").code, 0)
        told = node.ask("generate", "--model", "small", "--max-tokens", "3")
        self.assertTrue(told.out.endswith("\n"), str(told))

    def test_checkpoints_are_called_by_their_jobs_and_damage_is_told_once(self):
        node = self.finished()
        job = node.ask("jobs", "--json").json["jobs"][0]["job"]
        verified = node.ask("checkpoint", "verify")
        self.assert_says(verified.out, f"small ({job[:8]}) step 20: whole")
        path = node.ask("checkpoint", "ls", "--json").json["checkpoints"][-1]["path"]
        with open(os.path.join(path, "weight-000.safetensors"), "r+b") as stream:
            stream.seek(3000)
            stream.write(b"damage")
        verified = node.ask("checkpoint", "verify")
        self.assert_fails(verified, 1, f"small ({job[:8]}) step 20: DAMAGED", "1 of 2 is damaged")
        self.assertEqual((verified.out + verified.err).count("another checkpoint"), 1, verified)
        with open(os.path.join(path, "manifest"), "r+b") as stream:
            stream.seek(20)
            stream.write(b"damage")
        self.assert_fails(node.ask("checkpoint", "verify", "nope"), 1,
                          "no durable checkpoint of job 'nope'")
        self.assert_fails(node.ask("checkpoint", "verify", "small"), 1, "small", "DAMAGED")

    def test_a_job_is_found_by_the_first_digit_of_its_id_and_served_by_its_name(self):
        node = self.finished()
        job = node.ask("jobs", "--json").json["jobs"][0]["job"]
        self.assertEqual(node.ask("job", "show", job[0], "--json").json["job"], job)
        self.assertEqual(node.ask("serve", job[:2], "--json").json["model"], "small")
        number = 1
        while len([one for one in node.ask("jobs", "--json").json["jobs"]
                   if one["job"].startswith(job[0])]) < 2:
            self.assertEqual(node.ask("train", self.job_file(f"other{number}", steps=number)).code, 0)
            number += 1
        self.assert_fails(node.ask("job", "stop", job[0]), 1, "fits several jobs",
                          "say which")

    def test_orders_and_news_are_in_plain_words(self):
        a = self.world.start("a")
        b = self.world.join("b", a)
        cluster.wait_until(lambda: len(a.ask("nodes", "--json").json["nodes"]) == 2, "both")
        header, *rows = a.ask("nodes").out.splitlines()
        self.assertEqual(header.split()[-1], "JOIN")
        self.assertLessEqual({a.join_address, b.join_address}, {row.split()[-1] for row in rows})
        job = self.job_file(steps=1000000, every=1000, nodes=2)
        self.assertEqual(a.ask("train", job).code, 0)
        cluster.wait_until(lambda: a.ask("job", "show", "small", "--json").json["step"] > 20, "runs")
        stopped = a.ask("job", "stop", "small")
        step = re.search(r"after step (\d+)", stopped.out)[1]
        resumed = a.ask("job", "resume", "small")
        self.assertIn(f"goes on after step {step} with ", resumed.out)
        self.assertEqual(b.ask("leave").code, 0)
        self.assertEqual(a.ask("job", "cancel", "small").code, 0)
        log = a.ask("job", "log", "small").out
        self.assert_says(log, "it was ordered to go on", "decides a tie)")
        self.assertNotIn("person", log)
        cluster.wait_until(lambda: "b (" in a.said() and ") has left" in a.said(), "it is told")
        for jargon in ("rumour", "is left"):
            self.assertNotIn(jargon, a.said())
        shown = a.ask("status")
        self.assert_says(shown.out, "HEALTH", "small", "no model is served")
        self.assertEqual(a.ask("job", "ls").out.split()[:2], ["JOB", "NAME"])

    def test_a_job_that_waits_is_told_as_one(self):
        node = self.world.start("a")
        job = self.job_file("six", nodes=2, min_nodes=2)
        follower = self.world.launch_command(node, "train", job, "--follow",
                                             output=subprocess.PIPE)
        cluster.wait_until(lambda: node.ask("job", "show", "six").code == 0, "it waits")
        lines = [follower.stdout.readline() for _ in range(3)]  # two are of `train` itself
        self.assertIn("waiting", lines[2])
        follower.send_signal(signal.SIGINT)
        self.assert_says(follower.communicate(timeout=cluster.TIMEOUT)[1], "waits on",
                         "`gpunode job rm six` takes it out")
        for words in (("job", "stop"), ("job", "trace"), ("job", "recover"), ("serve",)):
            told = node.ask(*words, "six")
            self.assertNotEqual(told.code, 0)
            self.assert_says(told.err, "waits in the queue")
            self.assertNotIn("--force", told.err)
        follower = self.world.launch_command(node, "job", "follow", "six", output=subprocess.PIPE)
        self.assertIn("waiting", follower.stdout.readline())
        self.assertEqual(node.ask("job", "rm", "six").code, 0)
        error = follower.communicate(timeout=cluster.TIMEOUT)[1]
        self.assertEqual(follower.returncode, 1)
        self.assert_says(error, "job 'six' was removed while it was waited for")

    def test_what_cannot_be_is_said_with_what_can(self):
        node = self.world.start("a")
        self.assert_fails(node.ask("serve", "nofile.safetensors"), 1, "no job 'nofile.safetensors'",
                          "nor is there a file of that name")
        self.assert_fails(node.ask("token", "create", "--ttl", "1000000h"), 2, "3650d")
        self.assert_fails(self.world.run("up", "--state", self.world.state("b"), "--metrics",
                                         "31699"), 1, "HOST:PORT", "127.0.0.1:31699")
        self.assert_fails(self.world.run("logs", "--state", self.world.state("b")), 1, "no log",
                          "where it was started")
        self.world.write("b/gpunode.toml", "nmae = 1")
        for command in ("up", "config"):
            self.assert_fails(self.world.run(command, "--state", self.world.state("b")), 2, "nmae")
        lines = node.ask("jobs", "--json").json["jobs"]
        self.assertEqual(lines, [])
        self.assertEqual(node.ask("train", self.job_file(steps=1000000)).code, 0)
        self.wait_for_phase(node, "small", "running")
        self.assertNotIn("reason", node.ask("jobs", "--json").json["jobs"][0])
        used = node.ask("devices").out.splitlines()[1]
        self.assertEqual(used.split()[2], "small", used)

    def test_a_token_goes_to_a_file_that_nobody_else_reads(self):
        node = self.world.start("a")
        path = self.world.write("token", "old")
        os.chmod(path, 0o644)
        self.assert_fails(node.ask("token", "create", "--out", path), 1, "is there already")
        with open(path) as file:
            self.assertEqual(file.read(), "old")
        os.remove(path)
        made = node.ask("token", "create", "--out", path)
        self.assertEqual((made.code, made.out), (0, ""), str(made))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        late = self.world.start("late", "join", node.join_address, "--token-file", path)
        self.assertNotIn("warning", late.said())

    def test_the_control_port_is_no_join_port_and_the_text_says_where_that_is(self):
        node = self.world.start("a")
        control = node.info["endpoints"][0].removeprefix("tcp://")
        late = self.world.run("join", control, "--state", self.world.state("b"), "--listen",
                              "127.0.0.1:0", env={"GPUNODE_TOKEN": self.world.token(node)})
        self.assert_fails(late, 1, "join port", "gpunode nodes")
        self.assertNotIn("HTTP", late.err)

    def test_leaving_a_node_that_hangs_is_no_success(self):
        node = self.world.start("a")
        node.signal(signal.SIGSTOP)
        left = node.ask("leave", timeout=2 * cluster.TIMEOUT)
        node.signal(signal.SIGCONT)
        self.assert_fails(left, 1, "did not answer in time", "it is stopped")
        self.assertIsNone(node.process.poll())

    def test_completion_knows_every_group_in_both_shells(self):
        scripts = {shell: self.world.run("completion", shell).out for shell in ("bash", "zsh")}
        for shell, script in scripts.items():
            self.assert_says(script, "device|token|http-key|node|keys|cluster|audit|job|checkpoint",
                             '"device drain")', '"job") list="show')
            if subprocess.run(["which", shell], capture_output=True, check=False).returncode == 0:
                checked = subprocess.run([shell, "-n"], input=script, text=True, check=False)
                self.assertEqual(checked.returncode, 0, script)
        self.assert_fails(self.world.run("completion", "fish"), 2, "bash and zsh")


if __name__ == "__main__":
    cluster.main()
