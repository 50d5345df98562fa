"""A switch between the nodes of a test: cuts, one-way cuts, resets and the distance of two nodes.

Each node advertises ports of the switch, which passes connections on to the node's own ports. Who
dials is not said in the (encrypted) bytes: the switch finds the process behind the other end of a
connection in /proc, so a rule can name a pair of nodes. One thread; needs no privileges.
"""
import collections
import errno
import glob
import os
import select
import socket
import struct
import threading
import time

import cluster

PORTS = 3  # control, bulk and join are neighbours
MOST_WAITING = 1 << 20  # bytes of one way held back before the sender's window fills
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST


def inode_of(address):
    """The inode of the socket whose own address this is, from /proc/net/tcp."""
    host = struct.unpack("<I", socket.inet_aton(address[0]))[0]
    wanted = f"{host:08X}:{address[1]:04X}"
    for _ in range(5):  # the table is not read at one instant: a line can be missed
        with open("/proc/net/tcp", encoding="ascii") as table:
            for line in table:
                words = line.split()
                if len(words) > 9 and words[1] == wanted:
                    return words[9]
    return None


def ended(pid):
    """Whether a process is gone, or about to be: its files are closed."""
    try:
        return cluster.gone(pid) or not os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return True


def owns(pid, inode):
    for name in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            if os.readlink(name) == f"socket:[{inode}]":
                return True
        except OSError:
            continue  # closed meanwhile
    return False


class Connection:
    """Two sockets: 0 is who dialled, 1 is the node that was dialled; pending[i] goes from i.

    due[i] has the moment of each of pending[i] from which on it may arrive.
    """

    def __init__(self, sockets, names):
        self.sockets, self.names = sockets, names
        self.pending = [collections.deque(), collections.deque()]
        self.due = [collections.deque(), collections.deque()]
        self.waiting = [0, 0]
        self.ended = [False, False]

    def between(self, pair):
        return pair is None or set(self.names) == set(pair)

    def way(self, side):
        return self.names[side], self.names[1 - side]


class Switch:
    """Forwards for the nodes it was told of, and breaks links as asked."""

    def __init__(self):
        self.lock = threading.Lock()
        self.poll = select.epoll()
        self.doors = {}  # file number: (listening socket, node, target port)
        self.sockets = {}  # file number: (connection, side)
        self.pids = {}  # name: pid
        self.places = {}  # name: its own first port, the one that is advertised
        self.stopped = set()  # (from, to): bytes are held back
        self.refused = set()  # frozenset of two names: new connections are reset
        self.far = {}  # (from, to): (seconds on the way, bytes a second)
        self.line_free = collections.defaultdict(float)  # (from, to): when all before is sent
        self.counts = collections.Counter()  # fault -> connections or bytes that it struck
        self.wake_out, self.wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.poll.register(self.wake_out, select.EPOLLIN)
        self.closing = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    # ---- for the test

    def add_node(self, name):
        """Takes ports for a node; returns (its own first port, the one to advertise)."""
        own, first = cluster.free_port_range(PORTS), cluster.free_port_range(PORTS)
        while abs(own - first) < PORTS:
            first = cluster.free_port_range(PORTS)
        self.places[name] = own, first
        return own, first

    def set_process(self, name, pid):
        """The node runs as this process: from now on dials reach it, until the process ends."""
        with self.lock:
            self.pids[name] = pid
            known = name in self.places
            if known and not any(owner == name for _, owner, _ in self.doors.values()):
                self.open_doors(name)

    def stop(self, source, target):
        """Bytes from source to target are held back: a one-way cut."""
        self.change(lambda: self.stopped.add((source, target)))

    def cut(self, one, other):
        """Held back both ways; new connections get no answer either."""
        self.change(lambda: self.stopped.update([(one, other), (other, one)]))

    def split(self, side, rest):
        """Every link between the two sides is cut."""
        for one in side:
            for other in rest:
                self.cut(one, other)

    def reset(self, one, other):
        """All connections of the two are reset once; they may dial anew."""
        self.change(lambda: self.drop((one, other), "reset"))

    def refuse(self, one, other):
        """Reset, and every new connection too, until heal()."""
        def apply():
            self.refused.add(frozenset((one, other)))
            self.drop((one, other), "refuse")
        self.change(apply)

    def place_apart(self, one, other, seconds, rate):
        """What they send each other from now on takes that long, at so many bytes a second each way."""
        self.change(lambda: self.far.update({(one, other): (seconds, rate),
                                             (other, one): (seconds, rate)}))

    def heal(self, one=None, other=None):
        """Everything flows again, what was held back too; without names, on all links."""
        def apply():
            pair = None if one is None else {one, other}
            self.stopped = {way for way in self.stopped if pair and set(way) != pair}
            self.refused = {link for link in self.refused if pair and set(link) != pair}
            for connection, _ in set(self.sockets.values()):
                self.watch(connection)
        self.change(apply)

    def links(self):
        """The pairs of names that have a connection through the switch."""
        with self.lock:
            return {frozenset(c.names) for c, _ in self.sockets.values() if None not in c.names}

    def close(self):
        self.closing = True
        self.wake()
        self.thread.join()
        for connection in {c for c, _ in self.sockets.values()}:
            self.shut(connection, hard=False)
        for door, _, _ in self.doors.values():
            door.close()
        self.poll.close()
        os.close(self.wake_out)
        os.close(self.wake_in)

    # ---- inside; the lock is held, except in run()

    def open_doors(self, name):
        own, first = self.places[name]
        for offset in range(PORTS):
            door = socket.socket()
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(("127.0.0.1", first + offset))
            door.listen(64)
            door.setblocking(False)
            self.doors[door.fileno()] = (door, name, own + offset)
            self.poll.register(door.fileno(), select.EPOLLIN)

    def close_doors_if_ended(self, name):
        """Dials of a node that is gone are refused, as its own ports would refuse them."""
        if name not in self.pids or not ended(self.pids[name]):
            return
        for number in [n for n, (_, owner, _) in self.doors.items() if owner == name]:
            door = self.doors.pop(number)[0]
            self.poll.unregister(number)
            door.close()

    def change(self, apply):
        with self.lock:
            apply()
        self.wake()

    def wake(self):
        try:
            os.write(self.wake_in, b"x")
        except BlockingIOError:
            pass

    def run(self):
        while not self.closing:
            try:
                ready = self.poll.poll(self.next_due())
            except InterruptedError:
                continue
            with self.lock:
                for number, events in ready:
                    self.serve(number, events)
                if self.far:
                    for connection in {c for c, _ in self.sockets.values() if any(c.due)}:
                        self.pump(connection)

    def next_due(self):
        """Seconds until something on the way may arrive; None: nothing is under way."""
        with self.lock:
            moments = [due[0] for c, _ in self.sockets.values() for due in c.due if due]
        return max(0.0, min(moments) - time.monotonic()) + 0.0005 if moments and self.far else None

    def arrival(self, way, size):
        """When the last of so many bytes arrives: they queue behind all others of that way."""
        if way not in self.far:
            return 0.0
        seconds, rate = self.far[way]
        sent = max(self.line_free[way], time.monotonic()) + size / rate
        self.line_free[way] = sent
        return sent + seconds

    def serve(self, number, events):
        if number == self.wake_out:
            try:
                os.read(self.wake_out, 4096)
            except BlockingIOError:
                pass
            for connection in {c for c, _ in self.sockets.values()}:
                self.pump(connection)
        elif number in self.doors:
            self.accept(*self.doors[number])
        elif number in self.sockets:
            connection, side = self.sockets[number]
            if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                if not self.read(connection, side):
                    return
            self.pump(connection)

    def accept(self, door, name, port):
        try:
            client, address = door.accept()
        except OSError:
            return
        inode = inode_of(address)
        dialler = next((n for n, pid in self.pids.items() if inode and owns(pid, inode)), None)
        # The process may be too young to be known: it may join, but not open a link yet.
        unknown = dialler is None and port != self.places[name][0] + PORTS - 1
        if unknown or frozenset((dialler, name)) in self.refused:
            self.counts["strangers" if unknown else "refused connections"] += 1
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.close()
            return
        target = socket.socket()
        try:
            target.connect(("127.0.0.1", port))
        except OSError:
            self.close_doors_if_ended(name)
            target.close()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.close()
            return
        connection = Connection((client, target), (dialler, name))
        for side, one in enumerate((client, target)):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets[one.fileno()] = (connection, side)
            self.poll.register(one.fileno(), 0)
        self.watch(connection)

    def may_read(self, connection, side):
        return (connection.way(side) not in self.stopped and not connection.ended[side] and
                connection.waiting[side] < MOST_WAITING)

    def may_pass(self, connection, side):
        due = connection.due[side]
        return (bool(due) and connection.way(side) not in self.stopped and
                (due[0] == 0 or due[0] <= time.monotonic()))

    def read(self, connection, side):
        """False: the connection is over."""
        if not self.may_read(connection, side):
            if connection.way(side) in self.stopped:
                return self.stays(connection, side)
            return True
        try:
            way = connection.way(side)
            data = connection.sockets[side].recv(16384 if way in self.far else 262144)
        except BlockingIOError:
            return True
        except OSError:
            self.close_doors_if_ended(connection.names[side])
            self.shut(connection)
            return False
        if data:
            connection.pending[side].append(data)
            connection.due[side].append(self.arrival(way, len(data)))
            connection.waiting[side] += len(data)
            return True
        self.close_doors_if_ended(connection.names[side])
        connection.ended[side] = True
        if not connection.pending[side]:
            self.shut(connection, hard=False)
            return False
        return True

    def stays(self, connection, side):
        """A side that is cut off and died: nobody hears of it through a cut link."""
        self.poll.modify(connection.sockets[side].fileno(), 0)
        return True

    def pump(self, connection):
        for side in (0, 1):
            pending, target = connection.pending[side], connection.sockets[1 - side]
            while self.may_pass(connection, side):
                try:
                    sent = target.send(pending[0])
                except BlockingIOError:
                    break
                except OSError:
                    return self.shut(connection)
                self.counts["bytes"] += sent
                connection.waiting[side] -= sent
                if sent < len(pending[0]):
                    pending[0] = pending[0][sent:]
                    break
                pending.popleft()
                connection.due[side].popleft()
            if connection.ended[side] and not pending:
                return self.shut(connection, hard=False)
        return self.watch(connection)

    def watch(self, connection):
        for side in (0, 1):
            events = select.EPOLLIN if self.may_read(connection, side) else 0
            if self.may_pass(connection, 1 - side):
                events |= select.EPOLLOUT
            try:
                self.poll.modify(connection.sockets[side].fileno(), events)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EBADF):
                    raise

    def drop(self, pair, why):
        for connection in {c for c, _ in self.sockets.values() if c.between(pair)}:
            self.counts[why + " connections"] += 1
            self.shut(connection)

    def shut(self, connection, hard=True):
        for one in connection.sockets:
            self.sockets.pop(one.fileno(), None)
            try:
                self.poll.unregister(one.fileno())
                if hard:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            except OSError:
                pass
            one.close()


def wait_for_links(switch, names, timeout=cluster.TIMEOUT):
    """Every two of the nodes are connected through the switch, so that a cut can strike."""
    wanted = {frozenset((a, b)) for a in names for b in names if a != b}
    cluster.wait_until(lambda: wanted <= switch.links(), "all links go through the switch", timeout)


if __name__ == "__main__":  # by hand: shows who is connected
    board = Switch()
    print(board.add_node("a"))
    while True:
        time.sleep(1)
        print(board.links())
