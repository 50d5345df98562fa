"""What an operator does around jobs: logs, settings that are remembered, watching and waiting, data sets
by name, many machines at once."""
import json
import os
import re
import signal
import subprocess

import cluster

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error) +\S+ +.*$")


class Operator(cluster.ProcessTest):
    def logs(self, name, *words):
        shown = self.world.run("logs", "--state", self.world.state(name), *words)
        self.assertEqual(shown.code, 0, str(shown))
        return shown.out.splitlines()

    def detached(self, name, *flags):
        up = self.world.run("up", "--detach", "--state", self.world.state(name), "--listen",
                            "127.0.0.1:0", "--json", *flags)
        self.assertEqual(up.code, 0, str(up))
        self.world.detached.append(up.json["pid"])
        return up

    def leave(self, name):
        left = self.world.run("leave", "--state", self.world.state(name))
        self.assertEqual(left.code, 0, str(left))

    def test_the_log_tells_start_version_pid_addresses_and_end_in_utc(self):
        first = self.detached("a", "--name", "anna")
        self.assertEqual(first.err, "", "nothing of the log is on the terminal")
        self.leave("a")
        second = self.detached("a")
        lines = self.logs("a")
        for line in lines:
            self.assertRegex(line, LINE)
        text = "\n".join(lines)
        for start in (first, second):
            self.assert_says(text, f"starts, pid {start.json['pid']}",
                             start.json["endpoints"][0].removeprefix("tcp://"))
        self.assert_says(text, "gpunode 0.", "node anna", "has ended")
        self.assertEqual(self.logs("a", "--lines", "2"), lines[-2:])
        records = [json.loads(line) for line in self.logs("a", "--json")]
        self.assertEqual(records[0]["level"], "info")
        self.assertTrue(all({"time", "level", "area", "text"} <= set(one) for one in records))

    def test_a_log_in_json_is_shown_alike(self):
        self.detached("a", "--log-json")
        with open(self.world.path("a/node.log"), encoding="utf-8") as stream:
            for line in stream:
                self.assertIn("text", json.loads(line))
        self.assertIn("area", json.loads(self.logs("a", "--json")[0]))

    def test_sighup_opens_the_log_anew_and_the_node_goes_on(self):
        pid = self.detached("a").json["pid"]
        os.rename(self.world.path("a/node.log"), self.world.path("a/moved"))
        os.kill(pid, signal.SIGHUP)
        cluster.wait_until(lambda: os.path.exists(self.world.path("a/node.log")), "it is opened")
        cluster.wait_until(lambda: any("opened anew" in line for line in self.logs("a")), "it says so")
        self.assertEqual(self.world.run("nodes", "--state", self.world.state("a")).code, 0)

    def test_logs_follow_a_log_that_is_moved_away(self):
        pid = self.detached("a").json["pid"]
        follower = subprocess.Popen(
            [cluster.PROGRAMS["gpunode"], "logs", "--follow", "--lines", "0", "--state",
             self.world.state("a")], stdout=subprocess.PIPE, text=True,
            env=self.world.environment())
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        self.addCleanup(follower.stdout.close)
        def reads_it():
            fds = f"/proc/{follower.pid}/fd"
            try:
                return any(os.path.realpath(f"{fds}/{one}").endswith("a/node.log")
                           for one in os.listdir(fds))
            except FileNotFoundError:  # one was closed meanwhile
                return False

        cluster.wait_until(reads_it, "it has opened the log")
        os.rename(self.world.path("a/node.log"), self.world.path("a/node.log.1"))
        os.kill(pid, signal.SIGHUP)
        self.assertIn("opened anew", follower.stdout.readline())

    def test_without_a_log_the_text_says_so(self):
        self.assert_fails(self.world.run("logs", "--state", self.world.state("none")), 1, "no log")

    def test_name_labels_and_addresses_are_remembered_until_they_are_forgotten(self):
        def shown():
            told = self.world.run("config", "--json", "--state", self.world.state("a")).json
            return {one["key"]: (one["values"], one["from"]) for one in told["settings"]}

        self.detached("a", "--name", "anna", "--label", "zone=a", "--label", "gpu")
        self.leave("a")
        again = self.world.run("up", "--detach", "--state", self.world.state("a"), "--json")
        self.world.detached.append(again.json["pid"])
        self.assertEqual(again.json["name"], "anna")
        node = self.world.run("nodes", "--state", self.world.state("a"), "--json").json["nodes"][0]
        self.assertEqual(node["labels"], {"zone": "a", "gpu": ""})
        self.assertEqual(shown()["name"], (["anna"], "an earlier start"))
        self.assertEqual(shown()["listen"], (["127.0.0.1:0"], "an earlier start"))
        self.leave("a")
        self.world.write("a/gpunode.toml", 'name = "berta"\n')
        self.assertEqual(shown()["name"], (["berta"], "gpunode.toml"))
        os.remove(self.world.path("a/gpunode.toml"))
        forgot = self.world.run("config", "--forget", "--state", self.world.state("a"))
        self.assertEqual(forgot.code, 0, str(forgot))
        self.assertIn("default", forgot.out)
        self.assertEqual(shown()["name"], ([], "default"))

    def test_a_wrong_setting_in_the_file_is_named_with_its_line(self):
        self.world.write("a/gpunode.toml", '\ndevice_timeout = "soon"\n')
        up = self.world.run("up", "--state", self.world.state("a"))
        self.assert_fails(up, 2, "device_timeout", "gpunode.toml", "soon")
        self.world.write("a/gpunode.toml", '\nlistne = "x"\n')
        self.assert_fails(self.world.run("up", "--state", self.world.state("a")), 2, "listne",
                          "'listen'", "line 2")

    def test_a_job_is_watched_waited_for_and_left_alone_by_ctrl_c(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=100000, every=1000)).code, 0)
        waited = node.ask("job", "wait", "small", "--timeout", "500ms", "--json")
        self.assertEqual(waited.code, 5, str(waited))
        self.assertEqual(waited.json["name"], "small")
        watch = subprocess.Popen(
            [cluster.PROGRAMS["gpunode"], "job", "follow", "small", "--state", node.state],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.world.environment())
        self.addCleanup(watch.kill)
        self.assertIn("step", watch.stdout.readline())
        watch.send_signal(signal.SIGINT)
        _, told = watch.communicate(timeout=cluster.TIMEOUT)
        self.assertEqual(watch.returncode, 128 + signal.SIGINT)
        self.assert_says(told, "the job goes on", "job stop small")
        self.assertEqual(node.ask("job", "stop", "small").code, 0)
        self.assertEqual(node.ask("job", "wait", "small").code, 4)
        self.assert_fails(node.ask("job", "wait", "other"), 1, "no job 'other'")

    def test_the_exit_code_of_wait_tells_that_a_job_has_finished(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=20)).code, 0)
        self.assertEqual(node.ask("job", "wait", "small").code, 0)
        self.assertEqual(node.ask("job", "follow", "small").code, 0)

    def test_a_data_set_is_found_by_its_name_wherever_it_lies(self):
        text = cluster.TEXT
        for name in ("a", "b"):
            self.world.write(f"data-of-{name}/here/text", text)
            self.world.write(f"{name}/gpunode.toml",
                             f'[data.fox]\npath = "../data-of-{name}/here"\n')
        first = self.world.start("a")
        second = self.world.join("b", first)
        job = self.job_file(nodes=2, steps=10)
        with open(job, encoding="utf-8") as stream:
            named = stream.read().replace('set = "text"', 'set = "fox"')
        job = self.world.write("named.toml", named)
        cluster.wait_until(lambda: len(first.ask("nodes", "--json").json["nodes"]) == 2, "both")
        started = first.ask("train", job, "--json")
        self.assertEqual(started.code, 0, str(started))
        self.assertEqual(sorted(started.json["started_on"]), ["a", "b"])
        self.assertEqual(first.ask("job", "wait", "small").code, 0)
        shown = first.ask("job", "show", "small", "--json").json
        self.assertTrue(shown["proof"]["equal_to_data"])
        self.assertEqual(shown["data"], "data set 'fox'")
        other = self.world.write("other.toml", named.replace('"fox"', '"wolf"')
                                 .replace('name = "small"', 'name = "other"'))
        self.assert_fails(second.ask("train", other), 1, "no data set 'wolf'", "[data.wolf]")

    def test_thirty_nodes_with_one_token_all_get_in(self):
        first = self.world.start("first")
        token = self.world.token(first, "--uses", "30")
        count = 30 if os.environ.get("GPUNODE_MANY") else 12
        environment = {"GPUNODE_TOKEN": token}
        nodes = [self.world.launch(f"n{at}", "join", first.join_address, "--listen", "127.0.0.1:0",
                                   env=environment) for at in range(count)]
        cluster.wait_until(
            lambda: len(first.ask("nodes", "--json").json["nodes"]) == count + 1, "all are in", 120)
        for node in nodes:
            self.assertIsNone(node.process.poll(), node.said())

    def a_text_ends_with_who_asked_for_it(self, node):
        def under_way():
            return [line.split()[-1] for line in node.ask("metrics").out.splitlines()
                    if line.startswith("gpunode_texts_under_way{")]

        asks = self.world.launch_command(node, "generate", "--model", "m", "--max-tokens", "65000", "--timeout", "1h")
        cluster.wait_until(lambda: under_way() == ["1"], "it is generated")
        asks.kill()
        asks.wait()
        cluster.wait_until(lambda: under_way() == ["0"], "nobody wants it any more")

    def test_a_model_is_served_after_a_restart_until_it_is_withdrawn(self):
        def served(node):
            return [one["model"] for one in node.ask("models", "--json").json["models"]]

        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=10)).code, 0)
        self.assertEqual(node.ask("job", "wait", "small").code, 0)
        self.assertEqual(node.ask("serve", "small", "--name", "m").code, 0)
        node.kill()
        node = self.world.start("a")
        cluster.wait_until(lambda: served(node) == ["m"], "it is served again")
        self.assertEqual(node.ask("generate", "--model", "m", "--max-tokens", "3").code, 0)
        self.a_text_ends_with_who_asked_for_it(node)
        other = self.world.join("b", node)
        cluster.wait_until(lambda: served(other) == ["m"], "b knows")
        self.assert_fails(other.ask("unserve", "m"), 1, "served by a", "say it there")
        self.assertEqual(node.ask("unserve", "m").code, 0)
        self.assertEqual(served(node), [])
        self.assert_fails(node.ask("unserve", "m"), 1, "no model named 'm'")
        node.kill()
        node = self.world.start("a")
        self.assertEqual(served(node), [])
        again = node.ask("serve", "small", "--name", "m")
        self.assertEqual(again.code, 0, str(again))
        self.assert_fails(node.ask("job", "trace", "small"), 1, "is over", "this life of the node")
        self.assertEqual(node.ask("job", "rm", "small").code, 0)
        node.kill()
        before = len(node.said())
        node = self.world.start("a")
        cluster.wait_until(lambda: "`gpunode unserve m` forgets it" in node.said()[before:], "lost")
        for asked in (node, other):
            gone = asked.ask("generate", "--model", "m", timeout=20)
            self.assert_fails(gone, 1, "no node serves a model named 'm'", "gpunode models")
        self.assertEqual(node.ask("unserve", "m").code, 0)
        self.assert_fails(node.ask("unserve", "m"), 1, "no model named 'm'")

    def test_a_reader_that_has_seen_enough_is_no_failure(self):
        command = f"'{cluster.PROGRAMS['gpunode']}' help --markdown | head -n 1"
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + command], capture_output=True,
                              text=True, env=self.world.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")

    def test_the_job_file_is_explained_with_every_key_and_its_default(self):
        keys = {one["key"]: one for one in self.world.run("help", "job", "--json").json["keys"]}
        self.assertEqual(keys["nodes"]["default"], "1")
        self.assertTrue(all(one["text"] for one in keys.values()))
        page = self.world.run("help", "job").out
        for key in keys:
            self.assertIn(key.split(".")[-1], page)
        self.assert_says(page, "[exchange]", "gpt: ")


if __name__ == "__main__":
    cluster.main()
