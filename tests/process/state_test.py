"""State directories and ports that cannot be had: cause, remedy, and nothing lost."""
import os
import socket

import cluster


class StateDirectory(cluster.ProcessTest):
    def up(self, state, listen="127.0.0.1:0", **options):
        return self.world.run("up", "--state", state, "--listen", listen, **options)

    def test_in_use_names_the_process_and_leaves_the_node_alone(self):
        node = self.world.start("a")
        self.assert_fails(self.up(node.state), 1, "in use", str(node.process.pid), "--state")
        self.assert_fails(self.world.run("up", "--detach", "--state", node.state, "--listen",
                                         "127.0.0.1:0"), 1, "in use")
        self.assertEqual(node.ask("nodes").code, 0)

    def test_unwritable_says_so(self):
        if os.geteuid() == 0:
            place = "/proc/gpunode"
        else:
            place = self.world.path("closed")
            os.mkdir(place, 0o500)
            place += "/state"
        self.assert_fails(self.up(place), 1, "state directory", place)

    def test_a_file_in_the_way_says_so(self):
        place = self.world.write("file", "x")
        self.assert_fails(self.up(place), 1, "state directory", place)
        self.assertEqual(os.path.getsize(place), 1)

    def test_too_long_for_the_socket_names_the_limit(self):
        place = self.world.path("d" * 120)
        self.assert_fails(self.up(place), 1, "too long", "107", "--state")
        self.assertFalse(os.path.exists(place))

    def test_another_version_is_refused_and_not_touched(self):
        node = self.world.start("a")
        node.signal(15)
        self.assertEqual(node.wait(), 0)
        self.world.write("a/format", "gpunode state 99\n")
        self.assert_fails(self.up(node.state), 1, "another version", "99", "name another")
        self.world.write("a/format", "gpunode state 1\n")
        again = self.world.start("a")
        self.assertEqual(again.info["id"], node.info["id"])

    def test_a_damaged_format_file_is_refused(self):
        self.world.write("a/format", "what is this")
        self.assert_fails(self.up(self.world.state("a")), 1, "format", "damaged")

    def test_a_folder_of_somebody_else_is_not_taken_over(self):
        self.world.write("mine/thesis.txt", "years of work")
        self.assert_fails(self.up(self.world.state("mine")), 1, "did not make", "empty or new")
        self.assertEqual(os.listdir(self.world.state("mine")), ["thesis.txt"])

    def test_a_taken_port_is_named(self):
        first = cluster.free_port_range()
        for offset in range(3):
            with socket.socket() as door:
                door.bind(("127.0.0.1", first + offset))
                door.listen()
                result = self.up(self.world.state("a"), f"127.0.0.1:{first}")
                self.assert_fails(result, 1, str(first + offset))
                self.assertRegex(result.err, "taken|in use")
        node = self.world.start("a", listen=f"127.0.0.1:{first}")
        self.assertEqual(node.ask("nodes").code, 0)

    def test_doctor_sees_a_taken_port(self):
        first = cluster.free_port_range()
        with socket.socket() as door:
            door.bind(("127.0.0.1", first + 1))
            door.listen()
            result = self.world.run("doctor", "--listen", f"127.0.0.1:{first}", "--state",
                                    self.world.state("a"))
            self.assert_fails(result, 1, str(first + 1), "--listen")


if __name__ == "__main__":
    cluster.main()
