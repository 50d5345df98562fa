"""A slow way to one node: what the others send to it passes at a bounded rate.

The node advertises the ports of the door, so all who dial it come through; what it sends itself goes
its own way. One thread a connection and way; counts the bytes, so that a test can assert that they
really came through.
"""
import socket
import threading
import time

import cluster

PORTS = 3  # control, bulk and join are neighbours
PIECE = 4096


class SlowDoor:
    """Forwards its ports to a node's own; `rate` is in bytes a second of each bulk connection."""

    def __init__(self, rate):
        self.rate, self.passed = rate, 0
        self.own = cluster.free_port_range(PORTS)
        self.shown = cluster.free_port_range(PORTS)
        while abs(self.own - self.shown) < PORTS:
            self.shown = cluster.free_port_range(PORTS)
        self.doors = []
        for offset in range(PORTS):
            door = socket.socket()
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(("127.0.0.1", self.shown + offset))
            door.listen(64)
            self.doors.append(door)
            threading.Thread(target=self.accept, args=(door, offset), daemon=True).start()

    def accept(self, door, offset):
        while True:
            try:
                client, _ = door.accept()
            except OSError:
                return  # closed
            try:
                target = socket.create_connection(("127.0.0.1", self.own + offset))
            except OSError:
                client.close()
                continue
            # Small buffers: what waits for the slow way waits at its sender.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * PIECE)
            slow = offset == 1
            for source, sink, limited in ((client, target, slow), (target, client, False)):
                threading.Thread(target=self.carry, args=(source, sink, limited),
                                 daemon=True).start()

    def carry(self, source, sink, limited):
        try:
            while True:
                data = source.recv(PIECE)
                if not data:
                    break
                if limited:
                    self.passed += len(data)
                    time.sleep(len(data) / self.rate)
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        for door in self.doors:
            door.close()
