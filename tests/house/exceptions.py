"""What the rules of the house let pass, and why: the one place to switch a rule on or off.

An exception that nothing needs any more is a broken rule itself, so that the lists only shrink.
Take an entry out when its reason is gone; a new one needs a reason that a reader would accept.
"""

# Files over the limit of lines.
LONG_FILES = {
    "tools/gpunode/commands.cpp": "a table",
}

# Functions over the limit of lines, as path:name.
LONG_FUNCTIONS = {
    "tools/gpunode/commands.cpp:make_commands": "a table",
    "runtime/job/job_codec.cpp:read_body": "a table: a case for each kind of message",
}

# Classes over the limit of fields, as path:name.
WIDE_CLASSES = {
    "actors/node/detail/running_node.hpp:RunningNode":
        "the composition root, counted with every setting of a node",
    "tests/sim/job_world.hpp:Node": "all that a simulated machine has, and its faults",
    "tests/sim/job_world_options.hpp:WorldOptions": "every knob of the simulator, each with its default",
}

# Public functions that only tests call, as path:name.
CALLED_BY_TESTS = {
    "kernels/cpu/cpu_backend.hpp:pin_instruction_set": "one process, one instruction set: parity",
    "kernels/ops/access.hpp:accesses_of": "the hostile device asks it of every call",
    "kernels/tensor/buffer.hpp:in_use_bytes": "shows that nothing leaks",
    "kernels/tensor/buffer.hpp:held_bytes": "shows that the pool is bounded",
    "runtime/collective/all_reduce.hpp:dropped_messages": "shows that bad messages are refused",
    "runtime/dataset/text_dataset.hpp:block_tokens": "shows how much is held out at once",
    "runtime/directory/directory.hpp:rejected_updates": "shows that bad messages are refused",
    "runtime/job/state_transfer.hpp:has_snapshot": "shows that a snapshot is let go",
    "runtime/membership/swim.hpp:local_health": "shows that a slow node doubts itself",
    "runtime/membership/swim.hpp:rejected_messages": "shows that bad messages are refused",
}

# Words that are no longer used, and what is said instead.
RETIRED_WORDS = {
    r"actors/exchange": "actors/job",
    r"jobs_actor": "job board (actors/job/job_board_actor.hpp)",
    r"MemberState": "PeerHealth (runtime/base/peer.hpp)",
    r"ConnectionState": "LinkState (runtime/base/peer.hpp)",
    r"CAF_ALLOW_UNSAFE_MESSAGE_TYPE": "nothing: actors/own_message.hpp",
    r"island": "device group",
    r"[Ff]oresee[ns]?": "speculative update",
    r"TotalPart": "speculative update",
    r"\bFed\b": "DataFingerprint",
    r"patience": "timeout",
    r"LanePool": "WorkerPool: a lane is one of a transport, or of a vector",
    r"Exact" r"Exchange": "AllReduce",
    r"lineage": "history",
    r"lane_at": "scratch_of: a lane is one of a transport, or of a vector",
    r"PeerState": "PeerHealth and LinkState (runtime/base/peer.hpp)",
    r"HostPlace": "HostWorkspace: a place is memory that a payload is read to",
}
