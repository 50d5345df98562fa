"""Two members 50 ms and 100 Mbit/s apart: mode `local` against `exact`, on real text.

After the same inner steps a member, local rounds reach the validation loss of exact within 2 %, with
at least 100 times fewer bytes, and sooner. The distance is made by a switch in user space. Minutes
long; skipped where the text is absent.
"""
import os
import sys
import time

import link_faults
import cluster
import training
from learn_test import text_file

STEPS = int(os.environ.get("GPUNODE_FAR_STEPS", "1500"))  # inner ones, of each member
INNER = 50
SECONDS, RATE = 0.05, 100e6 / 8
JOB = """
name = "{name}"
nodes = 2
min_nodes = 2

[data]
{data}
validation_fraction = 0.1

[model]
kind = "gpt"
layers = 2
heads = 4
channels = 64
context = 64

[train]
steps = {steps}
batch = 16
slices = 4
learning_rate = 1e-3
warmup_steps = 100

[exchange]
{exchange}
"""


class Far(training.TrainingTest):
    switched = True

    def setUp(self):
        self.data = text_file()
        if not self.data or not os.path.exists(self.data):
            print("skipped: ../shared/data/tinyshakespeare.txt is not there")
            self.skipTest("no text")
        super().setUp()
        self.world.offers["shakespeare"] = self.data

    def run_job(self, name, steps, exchange):
        """Seconds, the validation loss and the bytes that both sent in a step of the job."""
        path = self.world.write(name + ".toml", JOB.format(
            name=name, data=self.world.offered(self.data), steps=steps, exchange=exchange))
        begin = time.monotonic()
        node = self.nodes["a"]
        started = node.ask("train", path, "--json")
        self.assertEqual(started.code, 0, str(started))
        self.wait_for_phase(node, name, timeout=3600)
        seconds = time.monotonic() - begin
        shown = self.progress(node, name)
        other = cluster.wait_until(lambda: self.progress(self.nodes["b"], name)
                                   .get("validation_loss"), "both have evaluated")
        self.assertEqual(shown["validation_loss"], other)
        self.assertTrue(shown["proof"]["equal_to_data"], shown["proof"])
        self.assertTrue(shown["proof"]["each_sample_once_an_epoch"], shown["proof"])
        times = shown["times"]
        sent = sum(one["sent_bytes"] for one in times["members"])  # means of the last steps
        print(f"{name}: {steps} steps in {seconds:.0f} s, validation loss "
              f"{shown['validation_loss']:.4f}, {sent:.0f} bytes a step", flush=True)
        return seconds, shown["validation_loss"], sent

    def test_local_rounds_reach_the_loss_of_exact_with_a_hundredth_of_the_bytes(self):
        self.start_nodes(["a", "b"])
        link_faults.wait_for_links(self.switch, ["a", "b"])
        self.switch.place_apart("a", "b", SECONDS, RATE)
        rounds = [self.run_job(f"local-{ahead}", STEPS // INNER, f"""mode = "local"
inner_steps = {INNER}
form = "int8"
rounds_ahead = {ahead}""") for ahead in (0, 1)]
        exact_seconds, exact_loss, exact_bytes = self.run_job("exact", STEPS, 'mode = "exact"')
        for seconds, loss, sent in rounds:
            self.assertLessEqual(loss, 1.02 * exact_loss)
            self.assertGreaterEqual(exact_bytes, 100 * sent / INNER)
            self.assertLess(seconds, exact_seconds)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    cluster.main()
