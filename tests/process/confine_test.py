"""What a node keeps to itself, and what it may do on its machine: whoever takes it over gets little."""
import os
import re

import cluster


def core_limits(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as told:
        return re.search(r"Max core file size +(\S+) +(\S+)", told.read()).groups()


def memory_holds(pid, text):
    """Whether any page that the process may write to holds the text."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as told:
        places = [re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups() for line in told]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for begin, end, rights in places:
            if not rights.startswith("rw"):
                continue
            try:
                memory.seek(int(begin, 16))
                if text in memory.read(int(end, 16) - int(begin, 16)):
                    return True
            except OSError:
                pass  # a guard page, or gone by now
    return False


class Confine(cluster.ProcessTest):
    def test_a_node_leaves_no_core_dump_unless_who_debugs_it_asks_for_one(self):
        if core_limits("self")[1] == "0":
            self.skipTest("core dumps are off on this machine")
        if os.getuid() == 0:  # other users' tests look at their nodes through /proc
            node = self.world.start("private")
            self.assertEqual(core_limits(node.process.pid), ("0", "0"))
        debugged = self.world.start("debugged", env={"GPUNODE_DUMPABLE": "1"})
        self.assertNotEqual(core_limits(debugged.process.pid)[1], "0")

    def test_the_token_is_gone_from_the_memory_of_who_joined_with_it(self):
        first = self.world.start("first")
        for way in ("file", "environment"):
            token = self.world.token(first)
            flags, env = ((), {"GPUNODE_TOKEN": token}) if way == "environment" else (
                ("--token-file", self.world.write(way + ".token", token + "\n")), {})
            node = self.world.start(way, "join", first.join_address, *flags,
                                    env={**env, "GPUNODE_DUMPABLE": "1"})
            pid = node.process.pid
            try:
                self.assertTrue(memory_holds(pid, node.info["id"].encode()), "memory can be read")
            except PermissionError:
                self.skipTest("this machine lets nobody read another process's memory")
            secret = token[len("gpn1_"):].encode()
            self.assertFalse(memory_holds(pid, secret), f"the token by {way} is still there")

    def test_a_node_is_in_its_sandbox_and_says_so(self):
        node = self.world.start("one")
        offered = [line for line in node.ask("doctor", "--json").json["findings"]
                   if line["subject"] == "sandbox"][0]
        with open(f"/proc/{node.process.pid}/status", encoding="ascii") as told:
            status = dict(line.split(":\t", 1) for line in told.read().splitlines())
        self.assertTrue(offered["text"].endswith(node.info["sandbox"]), (offered, node.info))
        self.assertIn("sandbox: " + node.info["sandbox"], node.said())
        self.assertEqual(status["NoNewPrivs"], "1")
        confines = "system calls are confined" in node.info["sandbox"] or offered["grade"] == "ok"
        self.assertEqual(status["Seccomp"], "2" if confines else "0")
        free = self.world.start("free", "up", "--no-sandbox")
        self.assertEqual(free.info["sandbox"], "off, by --no-sandbox")
        with open(f"/proc/{free.process.pid}/status", encoding="ascii") as told:
            self.assertIn("Seccomp:\t0", told.read())

    def test_a_way_out_of_the_state_directory_leads_nowhere(self):
        for name, flags in (("confined", ()), ("free", ("--no-sandbox",))):
            outside = self.world.path(name + "-outside")
            os.makedirs(outside)
            first = self.world.start(name, "up", *flags)  # makes the directory its own
            if not first.info["sandbox"].startswith(("writes", "off")):
                self.skipTest("this kernel confines no writes")
            first.signal(15)
            self.assertEqual(first.wait(), 0)
            folder = os.path.join(first.state, "checkpoints")
            if os.path.isdir(folder):
                os.rmdir(folder)
            os.symlink(outside, folder)
            node = self.world.start(name, "up", *flags)
            self.assertEqual(node.ask("train", self.job_file(steps=2, every=1)).code, 0)
            if name == "free":
                cluster.wait_until(lambda: os.listdir(outside), "the checkpoint is written")
                continue
            cluster.wait_until(lambda: "permission_denied" in self.progress(node, "small").get(
                "reason", ""), "the checkpoint is refused")
            self.assertEqual(os.listdir(outside), [])


if __name__ == "__main__":
    cluster.main()
