"""What a collector reads of a node over HTTP: every series is in the table of tools/METRICS.md, with its
kind and labels, and figures are exact.
usage: metrics_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os
import re
import urllib.error
import urllib.request

import cluster

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "METRICS.md")
ROW = re.compile(r"^\| `([\w:]+)` \| (counter|gauge|histogram) \|([^|]*)\|")
SAMPLE = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# What does not happen in these tests, or the library that stands in for NVML does not tell.
NOT_SEEN = {"gpunode_http_requests_total", "gpunode_infer_rows_total",  # front_test.py, kserve_test.py
            "gpunode_infer_failures_total", "gpunode_infer_seconds",
            "DCGM_FI_DEV_POWER_USAGE"}


def table():
    """{name: (kind, labels)} as the table has it."""
    rows = {}
    with open(TABLE, encoding="utf-8") as stream:
        for line in stream:
            row = ROW.match(line)
            if row:
                rows[row[1]] = (row[2], set(re.findall(r"`(\w+)`", row[3])))
    return rows


def read(text):
    """{family: kind}, and [(family, labels, value as it is written)] of all samples."""
    kinds, samples = {}, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        elif not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
            samples.append((family, dict(LABEL.findall(labels or "")), value))
    return kinds, samples


class Metrics(cluster.ProcessTest):
    def fetch(self, url, method="GET"):
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=cluster.TIMEOUT) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def refusal(self, url, method="GET"):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.fetch(url, method)
        caught.exception.close()
        return caught.exception

    def start(self, name="a", *flags, **options):
        return self.world.start(name, "up", "--metrics", "127.0.0.1:0", *flags, **options)

    def value(self, node, name, **labels):
        """As it is written; None: there is no such series."""
        for family, with_labels, value in read(self.fetch(node.info["metrics"])[1])[1]:
            if family == name and all(with_labels.get(k) == v for k, v in labels.items()):
                return value
        return None

    def test_every_series_of_a_node_at_work_is_in_the_table(self):
        library = os.path.join(os.path.dirname(cluster.PROGRAMS["faulty"]), "..", "fake_nvml")
        node = self.start(env={"LD_LIBRARY_PATH": os.path.abspath(library),
                               "FAKE_NVML_READINGS": self.world.path("none")})
        other = self.world.join("b", node)
        cluster.wait_until(lambda: self.value(node, "gpunode_nodes", state="alive") == "2", "two")
        self.assertEqual(node.ask("train", self.job_file(steps=20)).code, 0)
        self.assertEqual(node.ask("job", "wait", "small").code, 0)
        self.assertEqual(node.ask("serve", "small").code, 0)
        made = node.ask("generate", "--model", "small", "--max-tokens", "3")
        self.assertEqual(made.code, 0, str(made))
        cluster.wait_until(lambda: self.value(node, "gpunode_disk_free_bytes"), "it has looked")
        kind, text = self.fetch(node.info["metrics"])
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        rows = table()
        kinds, samples = read(text)
        shown = {family for family, _, _ in samples}
        for family, labels, _ in samples:
            self.assertIn(family, rows, "not in tools/METRICS.md")
            self.assertEqual(kinds[family], rows[family][0], family)
            self.assertEqual(set(labels) - {"le"}, rows[family][1], family)
        self.assertEqual(set(rows) - shown - NOT_SEEN, set(), "in tools/METRICS.md, and not shown")
        for family, _, value in samples:
            if kinds[family] == "counter" and not family.startswith("process_cpu"):
                self.assertRegex(value, r"^\d+$", family)
        self.assertEqual(self.value(node, "gpunode_job_checkpoint_step", job="small"), "20")
        self.assertEqual(self.value(node, "gpunode_job_phase", job="small", phase="finished"), "1")
        for name in ("gpunode_generated_tokens_total", "vllm:generation_tokens_total"):
            self.assertEqual(self.value(node, name), "3", name)
        for name in ("gpunode_generate_seconds_count", "nv_inference_request_success",
                     "gpunode_first_token_seconds_count", "vllm:time_to_first_token_seconds_count"):
            self.assertIn(f'{name}{{', text)
            self.assertRegex(text, rf"(?m)^{name}\{{.*\}} 1$")
        self.assertRegex(text, r"(?m)^vllm:inter_token_latency_seconds_count\{.*\} 2$")
        printed = read(node.ask("metrics").out)[0]
        self.assertEqual(printed, kinds, "the command prints the same")
        other.kill()
        cluster.wait_until(lambda: self.value(node, "gpunode_nodes", state="dead") == "1", "b is dead")

    def test_two_jobs_of_one_name_are_two_and_what_is_over_keeps_its_last_value(self):
        node = self.start()
        for steps in (10, 20):
            self.assertEqual(node.ask("train", self.job_file(steps=steps)).code, 0)
            self.assertEqual(node.ask("job", "wait", "small").code, 0)
        ids = {line["job"]: str(line["steps"]) for line in node.ask("jobs", "--json").json["jobs"]}
        self.assertEqual(len(ids), 2)
        for job, steps in ids.items():
            cluster.wait_until(lambda: self.value(node, "gpunode_job_committed_step",
                                                  job="small", job_id=job) == steps, f"{steps} steps")

    def test_nothing_but_get_metrics_on_loopback_is_there(self):
        node = self.start()
        url = node.info["metrics"]
        self.assertEqual(self.refusal(url.replace("/metrics", "/")).code, 404)
        refused = self.refusal(url, "POST")
        self.assertEqual(refused.code, 405)
        self.assertIn("GET", refused.headers["Allow"])
        line = node.ask("nodes", "--json").json["nodes"][0]
        self.assertEqual(line["metrics"], url)
        self.assertIn(url, node.said())
        for address in ("0.0.0.0:0", "10.0.0.1:9464", "host.example:9464"):
            self.assert_fails(self.world.run("up", "--state", self.world.state("b"), "--metrics",
                                             address), 1, "loopback", "proxy")
        port = url.split(":")[2].split("/")[0]
        self.assert_fails(self.world.run("up", "--state", self.world.state("c"), "--listen",
                                         "127.0.0.1:0", "--metrics", f"localhost:{port}"), 1,
                          "another program listens", "port 0")

    def test_the_settings_file_turns_it_on(self):
        self.world.write("a/gpunode.toml", 'metrics = "127.0.0.1:0"\n')
        node = self.world.start("a")
        self.assertTrue(node.info["metrics"].startswith("http://127.0.0.1:"))
        shown = self.world.run("config", "--json", "--state", node.state).json["settings"]
        self.assertIn({"key": "metrics", "values": ["127.0.0.1:0"], "from": "gpunode.toml",
                       "flag": "--metrics"}, shown)
        self.assertEqual(self.world.start("b").info["metrics"], "", "off unless it is asked for")


if __name__ == "__main__":
    cluster.main()
