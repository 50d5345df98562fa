"""Wrong command lines and what needs no node: each names its cause and what to try."""
import json
import os
import stat
import subprocess

import cluster


class Usage(cluster.ProcessTest):
    def test_an_unknown_command_names_the_nearest(self):
        self.assert_fails(self.world.run("nods"), 2, "unknown command 'nods'", "'nodes'")
        self.assert_fails(self.world.run("checkpoint", "verfy"), 2, "'verify'")

    def test_an_unknown_flag_names_the_nearest(self):
        self.assert_fails(self.world.run("nodes", "--jsno"), 2, "--jsno", "'--json'")
        self.assert_fails(self.world.run("up", "--lisen", "x"), 2, "--lisen", "'--listen'")

    def test_errors_are_json_when_asked_for(self):
        result = self.world.run("nods", "--json")
        self.assertEqual(result.code, 2)
        self.assertFalse(result.json["ok"])
        self.assertIn("nods", result.json["error"]["detail"])

    def test_without_a_node_the_exit_code_is_3_and_the_text_says_how_to_start_one(self):
        for words in (["nodes"], ["jobs"], ["leave"], ["token", "create"], ["models"],
                      ["job", "show", "x"], ["generate", "--model", "m"], ["serve", "job"]):
            result = self.world.run(*words, "--state", self.world.state("none"))
            self.assert_fails(result, 3, "no node runs", "gpunode up")
            self.assertFalse(os.path.exists(self.world.state("none")), words)

    def test_a_token_as_argument_is_refused_with_the_reason_and_not_repeated(self):
        for words in (["--token", "gpn1_secret"], ["gpn1_secret"], ["--token=gpn1_secret"]):
            result = self.world.run("join", "localhost", *words)
            self.assert_fails(result, 2, "never given as an argument", "--token-file")
            self.assertNotIn("secret", result.err)

    def test_a_token_file_that_is_missing_empty_or_something_else_is_named(self):
        def join(*words, **options):
            return self.world.run("join", "127.0.0.1:1", "--state", self.world.state("a"),
                                  *words, **options)
        self.assert_fails(join("--token-file", self.world.path("no")), 1, "no such file")
        empty = self.world.write("empty", "")
        self.assert_fails(join("--token-file", empty), 1, "holds no token", "token create")
        large = self.world.write("large", "x" * 100000)
        self.assert_fails(join("--token-file", large), 1, "too long for a token")
        self.assert_fails(join("--token-file", "-", stdin=""), 1, "standard input holds no token")

    def test_a_token_file_that_others_can_read_is_warned_of(self):
        shown = self.world.write("token", "gpn1_x")
        os.chmod(shown, 0o644)
        result = self.world.run("join", "127.0.0.1:1", "--token-file", shown, "--state",
                                self.world.state("a"))
        self.assert_fails(result, 1, "warning", "chmod 600")

    def test_numbers_and_times_out_of_bounds_name_the_flag(self):
        self.assert_fails(self.world.run("token", "create", "--ttl", "15 apples"), 2, "--ttl",
                          "15m")
        self.assert_fails(self.world.run("token", "create", "--uses", "0"), 2, "--uses")
        self.assert_fails(self.world.run("up", "--threads", "many"), 2, "--threads")
        self.assert_fails(self.world.run("generate", "--model", "m", "--top-k", "-1"), 2, "--top-k")

    def test_a_name_or_label_that_would_spoil_the_tables_of_others_is_refused(self):
        for flag, value, word in (("--name", "two\nlines", "control"), ("--name", "x" * 65, "64"),
                                  ("--label", "zone=\x1b[2J", "control")):
            refused = self.world.run("up", "--state", self.world.state("a"), flag, value)
            self.assert_fails(refused, 1, flag.strip("-"), word)
            self.assertFalse(os.path.exists(self.world.state("a")))

    def test_output_that_cannot_be_written_is_a_failure_and_a_closed_one_harms_nothing(self):
        program = cluster.PROGRAMS["gpunode"]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([program, "version"], stdout=full, stderr=subprocess.PIPE,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)
        closed = subprocess.run(["sh", "-c", f"exec '{program}' version >&- 2>&-"], check=False)
        self.assertEqual(closed.returncode, 0)

    def test_nothing_that_is_no_file_or_a_nodes_own_is_written_over(self):
        state = self.world.state("home")
        os.makedirs(state)
        here = self.world.write("token", "of another node")
        for command, out, word in (
                (("checkpoint", "export", "small"), "/dev/null", "is not a file"),
                (("checkpoint", "export", "small"), self.world.root, "is not a file"),
                (("checkpoint", "export", "small"), os.path.join(state, "identity.key"),
                 "state directory"),
                (("token", "create"), self.world.path("none/token"), "there is no folder"),
                (("token", "create"), here, "is there already")):
            self.assert_fails(self.world.run(*command, "--out", out, "--state", state), 1, word)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        with open(here, encoding="ascii") as stream:
            self.assertEqual(stream.read(), "of another node")

    def test_help_json_and_completion_come_from_one_table(self):
        described = self.world.run("help", "--json").json
        names = [command["name"] for command in described["commands"]]
        for name in ("up", "join", "token create", "checkpoint verify", "doctor"):
            self.assertIn(name, names)
        script = self.world.run("completion", "bash")
        self.assertEqual(script.code, 0)
        checked = subprocess.run(["bash", "-n"], input=script.out, text=True, check=False)
        self.assertEqual(checked.returncode, 0)
        for name in names:
            shown = self.world.run("help", *name.split())
            self.assertEqual(shown.code, 0)
            self.assertIn("usage: gpunode " + name, shown.out)

    def test_version_and_doctor_speak_json(self):
        version = self.world.run("version", "--json").json
        self.assertIn("version", version)
        self.assertIn(version["cuda"], (True, False))
        result = self.world.run("doctor", "--json", "--listen", "127.0.0.1:0", "--state",
                                self.world.state("a"))
        self.assertIn(result.code, (0, 1))
        grades = {finding["grade"] for finding in json.loads(result.out)["findings"]}
        self.assertTrue(grades <= {"ok", "warn", "fail"}, grades)
        self.assertFalse(os.path.exists(self.world.state("a")), "doctor changes nothing")

    def test_bench_compute_tells_rates_and_refuses_what_is_not_there(self):
        result = self.world.run("bench", "compute", "--model", "small-gpt", "--seconds", "0",
                                "--threads", "1", "--ops", "linear,slice", "--json")
        self.assertEqual(result.code, 0, str(result))
        model, = result.json["models"]
        self.assertEqual({one["op"] for one in model["operations"]}, {"linear"})
        self.assertIn("slice", [one["op"] for one in model["slice"]])
        self.assertGreater(model["slice"][-1]["of_peak_flops"], 0)
        in_bf16 = self.world.run("bench", "compute", "--model", "small-gpt", "--seconds", "0",
                                 "--precision", "bf16", "--ops", "linear,cross_entropy_both",
                                 "--json")
        self.assertEqual(in_bf16.code, 0, str(in_bf16))
        types = {one["op"]: one["dtype"] for one in in_bf16.json["models"][0]["operations"]}
        self.assertEqual(types, {"linear": "bf16", "cross_entropy_both": "f32"})
        for words, code in ((("--precision", "fp8"), 2), (("--precision", "tf32"), 1),
                            (("--device", "tpu"), 2), (("--model", "none"), 2),
                            (("--device", "cuda:77"), 1)):
            refused = self.world.run("bench", "compute", *words)
            self.assertEqual(refused.code, code, str(refused))
            self.assertTrue(refused.err)

    def test_a_node_that_only_dials_says_what_a_listen_address_looks_like(self):
        for listen in ("nonsense:port", "127.0.0.1:99999", "127.0.0.1:65534"):
            result = self.world.run("up", "--state", self.world.state("a"), "--listen", listen)
            self.assertEqual(result.code, 1, str(result))
            self.assert_says(result.err, "port")


if __name__ == "__main__":
    cluster.main()
