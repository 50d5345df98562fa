// What commands of nodes, devices and the cluster answer; answers.hpp tells how it is written. Times of day are seconds
// since 1970.
#include "tools/gpunode/answers.hpp"

namespace gpunode::cli::detail {

const char* const kNodeAnswers = R"(
= @up
name           | text     | | the node's name
id             | text     | | its id
endpoints      | texts    | | control addresses, tcp://HOST:PORT
join_endpoints | texts    | | where others join; empty where the node only dials
metrics        | text     | | where /metrics is read; empty: nowhere
http           | text     | | where inference is answered as OpenAI does; empty: nowhere
state          | text     | | the state directory
sandbox        | text     | | what the node's process is kept from
recovery_key   | text     | it lies in the state directory still | the file with the cluster's recovery key
pid            | whole    | | of the node's process

= up
# One line when the node is up; what it says later goes to standard error or to the log.
+ @up

= join
# One line when the node is up; what it says later goes to standard error or to the log.
+ @up

= leave
unsaved        | texts    | | jobs whose result the disk had not taken when this was ordered

= config
file              | text  | | the settings file that was read; empty: none
settings          | list  | | every key that a node starts with
settings[].key    | text  | | as in gpunode.toml
settings[].values | texts | | one, or several of a repeatable flag; none: not said
settings[].from   | text  | | flag, gpunode.toml, an earlier start, or default
settings[].flag   | text  | | the flag of `up`
data              | list  | | data sets that the node offers to jobs
data[].name       | text  | | its name
data[].path       | text  | | where it lies
data[].for        | texts | | whose jobs may read it beside this node's own: any, or ids of nodes
data[].problem    | text  | it cannot be read | why

= logs
# A line each, a record of the log each, without ok; {"ok":false, ...} if there is no log.
ok             | truth    | it failed | false
time           | text     | gpunode wrote it, no library | UTC, as 2026-11-21T14:37:33.123Z
level          | text     | gpunode wrote it, no library | info, warning or error
area           | text     | gpunode wrote it, no library | the part of the node that speaks
text           | text     | it did not fail | what is said

= @nodes
shut_out                | text     | no other node is alive here, and some say that they let this one in no more | who says so, and what helps
nodes                   | list     | | the nodes of the cluster, this one included
nodes[].id              | text     | | its id
nodes[].name            | text     | | its name
nodes[].health          | text     | | alive, suspect, dead or left
nodes[].since_seconds   | number s | it has been heard of | how long that has been so
nodes[].put_out         | truth    | | whether it was put out of the cluster, for good
nodes[].self            | truth    | | whether it is the node that was asked
nodes[].endpoints       | texts    | | control addresses; none: it only dials
nodes[].join_endpoints  | texts    | | where others join
nodes[].roles           | text     | | what it may do: compute, submit, serve, call, admit, operate, observe
nodes[].metrics         | text     | of the node that was asked, if it has one | where /metrics is read
nodes[].http            | text     | of the node that was asked, if it has one | where inference is answered
nodes[].labels          | texts by name | | its labels; one without a value has ""
nodes[].health_report   | object   | it has told | what it told last of its machine
nodes[].health_report.host | object | | the machine; what cannot be measured is left out
nodes[].health_report.host.cpu_count              | whole        | known | processors
nodes[].health_report.host.cpu_model              | text         | known | their name
nodes[].health_report.host.cpu_pressure           | number       | known | share of the time in which work waited for a processor, 0 to 1
nodes[].health_report.host.cpu_load               | number       | known | share of them at work, 0 to 1
nodes[].health_report.host.load_average           | number       | known | tasks that run or wait, mean of a minute
nodes[].health_report.host.memory_total_bytes     | whole bytes  | known | memory
nodes[].health_report.host.memory_available_bytes | whole bytes  | known | what a program could still take
nodes[].health_report.host.disk_total_bytes       | whole bytes  | known | the disk of the state directory
nodes[].health_report.host.disk_free_bytes        | whole bytes  | known | its free space
nodes[].health_report.host.received_bytes_per_second | number bytes/s | known | over all network cards
nodes[].health_report.host.sent_bytes_per_second  | number bytes/s | known | over all network cards
nodes[].health_report.gpus                        | list         | | its GPUs
nodes[].health_report.gpus[].index                | whole        | | as NVML counts
nodes[].health_report.gpus[].lost                 | truth        | | the driver does not reach it any more
nodes[].health_report.gpus[].name                 | text         | known | its name
nodes[].health_report.gpus[].uuid                 | text         | known | its identity
nodes[].health_report.gpus[].pci_bus_id           | text         | known | where it sits
nodes[].health_report.gpus[].memory_total_bytes   | whole bytes  | known | its memory
nodes[].health_report.gpus[].memory_free_bytes    | whole bytes  | known | of it free
nodes[].health_report.gpus[].memory_used_bytes    | whole bytes  | known | of it used
nodes[].health_report.gpus[].utilization_percent  | whole %      | known | how busy it is
nodes[].health_report.gpus[].temperature_celsius  | whole C      | known | how hot it is
nodes[].health_report.gpus[].power_watts          | number W     | known | what it draws
nodes[].health_report.gpus[].uncorrected_errors   | whole        | known | of its memory
nodes[].health_report.drained                     | list         | | verdicts that keep work away
nodes[].health_report.drained[].subject           | text         | | node, disk or a GPU
nodes[].health_report.drained[].reason            | text         | | what was found

= nodes
+ @nodes

= @devices
devices                   | list        | | what this node computes on
devices[].device          | text        | | cpu, cuda:0
devices[].name            | text        | | the hardware's name
devices[].instruction_set | text        | | which of its instructions are used
devices[].library         | text        | | what multiplies matrices
devices[].state           | text        | | ready, drained or lost
devices[].used_by         | texts       | | ids of jobs, and models that are served
devices[].memory_bytes    | whole bytes | it has its own | its memory
devices[].pci_bus_id      | text        | it is a GPU | where it sits
devices[].reason          | text        | it takes no work | why
devices[].warning         | text        | something is wrong with it, and it works on | what

= devices
+ @devices

= device drain
+ @devices

= device resume
+ @devices

= token create
token          | text     | without --out | the token; keep it secret
path           | text     | with --out | the file that holds it
id             | text     | | which it is; no secret
uses           | whole    | | how many nodes it admits
roles          | text     | | what they may do
ttl_seconds    | whole s  | | how long it is good
endpoints      | texts    | | where to join with it

= token ls
tokens                    | list     | | those that this node made and that are good still
tokens[].id               | text     | | which it is; no secret
tokens[].label            | text     | | as it was made; may be ""
tokens[].roles            | text     | | what those may do that join with it
tokens[].uses_left        | whole    | | how many nodes it still admits
tokens[].ends_in_seconds  | number s | | until nobody can join with it

= token revoke
id             | text     | | the token with which nobody joins any more

= http-key create
key                  | text    | without --out | the key; it is shown this once
path                 | text    | with --out | the file that holds it
id                   | text    | | which it is; no secret
name                 | text    | | whose it is
may                  | texts   | | infer, list, metrics
models               | texts   | | those that it may use; none: all
requests_per_minute  | whole   | | 0: as many as it likes
tokens_per_minute    | whole   | | of prompts and texts; 0: as many as it likes
at_once              | whole   | | requests under way; 0: as many as it likes
created              | whole s | | since 1970
expires              | whole s | with --expires | since 1970
expired              | truth   | | whether that is over

= http-key ls
keys                        | list    | | those that open something
keys[].id                   | text    | | which it is; no secret
keys[].name                 | text    | | whose it is
keys[].may                  | texts   | | infer, list, metrics
keys[].models               | texts   | | those that it may use; none: all
keys[].requests_per_minute  | whole   | | 0: as many as it likes
keys[].tokens_per_minute    | whole   | | of prompts and texts; 0: as many as it likes
keys[].at_once              | whole   | | requests under way; 0: as many as it likes
keys[].created              | whole s | | since 1970
keys[].expires              | whole s | it has a term | since 1970
keys[].expired              | truth   | | whether that is over

= http-key revoke
id    | text | | the key that opens nothing any more
name  | text | | whose it was

= node revoke
id             | text     | | the node that is out
name           | text     | | its name
with_admitted  | truth    | | whether those that it let in are out with it
kept           | whole    | | how many of them stay
told           | whole    | | other nodes that are up here and hear of it
renewed        | whole    | | how many that it had put out are out by this node's word now
back           | whole    | | how many that it had put out are members again
silenced       | truth    | | whether what it orders from now on counts for nobody

= keys rotate
epoch          | whole    | | which key of the node it is; the first was 1
told           | whole    | | nodes that are up and hear of it
tokens_ended   | whole    | | tokens of this node that nobody can join with any more

= cluster refound
check               | truth | | whether it was only asked
nodes               | list  | | all that are or were members
nodes[].id          | text  | | its id
nodes[].name        | text  | | its name
nodes[].becomes     | text  | | member, restored (was put out by one that is put out), dropped (was let in by one) or put_out
nodes[].roles       | text  | | what it may do; with check: what it may now
nodes[].admitted_by | texts | | who let it in

= audit show
# A line each, an entry of the log each, without ok; {"ok":false, ...} if it does not verify.
ok             | truth    | it failed | false
seq            | whole    | it did not fail | its number
time           | text     | it did not fail | UTC, as 2026-11-21T14:37:33Z
event          | text     | it did not fail | what was done
fields         | texts by name | it did not fail | by whom, to what

= audit verify
entries        | whole    | | how many there were
given_up       | whole    | | of them, to keep the log small
files          | whole    | | that hold the rest
head           | text     | | the newest entry's hash
oldest         | text     | there are entries | when the oldest that is kept was written
newest         | text     | there are entries | when the newest was
rolled_back    | whole    | | how often peers have shown that entries are gone
set_aside      | texts    | | earlier logs of this node that did not verify

= metrics
text           | text     | | the page in the Prometheus text format
)";

}  // namespace gpunode::cli::detail
