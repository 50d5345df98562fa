"""Who may be in the cluster and what it may: tokens that name roles, and nodes that are put out."""
import json

import cluster


class Rights(cluster.ProcessTest):
    def nodes(self, node):
        return {one["name"]: one for one in node.ask("nodes", "--json").json["nodes"]}

    def joined(self, name, through, *flags):
        """A node that joined with a token made with those flags."""
        token = self.world.token(through, *flags)
        return self.world.start(name, "join", through.join_address, env={"GPUNODE_TOKEN": token})

    def sees_alive(self, node, *names):
        def all_alive():
            seen = self.nodes(node)
            return all(name in seen and seen[name]["health"] == "alive" for name in names)
        cluster.wait_until(all_alive, f"{node.name} sees {names} alive")

    def test_a_token_names_what_who_joins_with_it_may(self):
        first = self.world.start("first")
        plain = self.joined("plain", first, "--role", "compute,call")
        ruler = self.joined("ruler", first, "--role", "all")
        self.sees_alive(first, "plain", "ruler")
        roles = {name: one["roles"] for name, one in self.nodes(first).items()}
        self.assertEqual(roles["plain"], "compute, call")
        self.assertEqual(roles["first"], roles["ruler"])
        self.assert_fails(plain.ask("token", "create"), 1, "may not let in others")
        self.assert_fails(plain.ask("node", "revoke", "ruler"), 1, "may not put others out")
        self.assertEqual(ruler.ask("token", "create", "--role", "compute").code, 0)
        self.assert_fails(first.ask("token", "create", "--role", "compote"), 1, "compute")

    def test_tokens_are_listed_and_revoked(self):
        first = self.world.start("first")
        made = first.ask("token", "create", "--uses", "2", "--label", "rack 7", "--json").json
        listed, = first.ask("token", "ls", "--json").json["tokens"]
        self.assertEqual((listed["id"], listed["label"], listed["uses_left"]),
                         (made["id"], "rack 7", 2))
        self.assertNotIn(made["token"], json.dumps(listed))
        self.assertEqual(first.ask("token", "revoke", "rack 7").code, 0)
        self.assertEqual(first.ask("token", "ls", "--json").json["tokens"], [])
        refused = self.world.run("join", first.join_address, "--state", self.world.state("late"),
                                 "--listen", "127.0.0.1:0", env={"GPUNODE_TOKEN": made["token"]})
        self.assert_fails(refused, 1, "token")

    def test_a_node_that_is_put_out_is_gone_everywhere_and_does_not_come_back(self):
        first = self.world.start("first")
        second = self.world.join("second", first)
        third = self.world.join("third", first)
        away = self.world.join("away", first)
        for node in (first, second, third):
            self.sees_alive(node, "first", "second", "third", "away")
        away.kill()
        done = second.ask("node", "revoke", "third", "--reason", "sold", "--json")
        self.assertEqual(done.code, 0, str(done))
        for node in (first, second):
            cluster.wait_until(lambda node=node: self.nodes(node)["third"]["health"] == "left",
                               f"{node.name} has put it out")
            self.assertEqual(self.nodes(node)["third"]["roles"], "none")
        cluster.wait_until(lambda: "put out" in first.said(), "the log tells it")
        self.assertIn("sold", first.said())
        # Neither its own process nor a restart of it is heard again.
        third.kill()
        third = self.world.start("third")
        away = self.world.start("away")
        self.sees_alive(first, "away")
        cluster.wait_until(lambda: self.nodes(away)["third"]["health"] in ("left", "dead"),
                           "who was away knows it, too")
        self.assertEqual(self.nodes(first)["third"]["health"], "left")


if __name__ == "__main__":
    cluster.main()
