// What commands of jobs answer; answers.hpp tells how it is written. Times of day are seconds
// since 1970.
#include "tools/gpunode/answers.hpp"

namespace gpunode::cli::detail {

const char* const kJobAnswers = R"(
= train
job            | text     | | its id; one that waits gets another when it starts, and is found by both
name           | text     | | its name
phase          | text     | it waits in the queue | waiting
reason         | text     | it waits in the queue | for what
held_by        | texts    | it waits in the queue | nodes that have it on disk
candidates     | texts    | it starts | nodes that are to train it
started_on     | texts    | it starts | those of them that have it on disk
silent         | texts    | it starts | those that have not answered yet
nodes_wanted   | whole    | | as the job file says
refused        | list     | | nodes that take no part
refused[].node | text     | | its name
refused[].reason | text   | | why

= train --check
# Of a job that would be refused ok is false, and the other fields are there too where a node was asked.
name           | text     | | the job's name
starts         | truth    | | whether `train` would start it
waits          | truth    | | whether it would wait in the queue
refusal        | object   | it would wait | what for
refusal.code   | text     | | as of errors
refusal.detail | text     | | in words
nodes_wanted   | whole    | | as the job file says
nodes_least    | whole    | | fewer do not begin
nodes_taking_part | whole | | of the nodes that are up
nodes          | list     | | every node that is up
nodes[].node   | text     | | its name
nodes[].takes_part | truth | | whether it would train
nodes[].reason | text     | it would not | why
nodes[].slices | whole    | it would | of a step, until the members' speeds are known
nodes[].sent_bytes     | whole bytes | it would | a step, for the sum of gradients
nodes[].received_bytes | whole bytes | it would | a step, for the sum of gradients
nodes[].memory_needed_bytes    | whole bytes | it is fit | as the node counts
nodes[].memory_available_bytes | whole bytes | it is fit and knows | of the machine
model          | text     | | kind and size
parameters     | whole    | | how many numbers are learned
steps          | whole    | | the last one
slices_per_step  | whole  | | the units that a step is divided into
samples_per_step | whole  | | of all members together
tokens_per_step  | whole  | | at most
exchange_mode  | text     | | how gradients travel
checkpoint_bytes | whole bytes | | of one: weights and moments
checkpoint_every | whole steps | | 0: after the last step alone
checkpoints_kept | whole  | | the newest ones, on each member
data           | text     | | where it is
data_bytes     | whole bytes | somebody could read it | its size
data_samples   | whole    | somebody could read it | that are trained on
epochs         | number   | somebody could read it | how often all steps read it
remarks        | texts    | | what nobody is likely to want, though it is no mistake

= @progress
job            | text     | | its id
name           | text     | | its name
shown_as       | text     | | the name, or name~id of one that is not the newest of its name
phase          | text     | | waiting (in the queue), preparing, forming, learning, syncing, running, validating, saving (its result), paused, stopped, finished, failed; outsider or witness: no part in computing
reason         | text     | there is something to say of the phase | in words
elsewhere      | object   | this node's part has failed, and others go on | how the job stands there
elsewhere.phase | text    | | as phase
elsewhere.step | whole    | | the newest committed step
elsewhere.nodes | texts   | | which nodes
result_elsewhere | truth  | true | finished, and this node's disk has no copy of the result
step           | whole    | | the newest committed step
steps          | whole    | | the last one
view           | whole    | | the number of the agreement on who trains; it rises with each change
generation     | whole    | it has begun here | how often the job was recovered by force
members        | texts    | | the nodes that train it
as_of          | object   | it may be newer somewhere | of when step and loss are
as_of.at       | number s | | since 1970
as_of.text     | text     | there is something to say of it | in words
as_of.seconds_ago | number s | | how long ago
finished_at    | number s | it is known | when the job's end was reached, since 1970
finished_seconds_ago | number s | it is known | how long ago
witnesses      | texts    | it has begun here | nodes that vote and compute nothing
waiting_for    | texts    | it has begun here | nodes that it cannot go on without
ordered        | text     | an order was given at this node and is not carried out yet | stop or resume
stall          | object   | a step waits for one member | which
stall.node     | text     | | the member
stall.waiting_for | text  | | what is missing of it
stall.step     | whole    | | the step that waits
stall.seconds  | number s | | for how long
hang           | object   | this node's own work hangs | which
hang.work      | text     | | what does not end
hang.seconds   | number s | | since when
hang.usual_seconds | number s | | how long it takes else
unsaved_steps  | whole    | it has begun here | committed steps that no checkpoint holds yet
skipped_steps  | object   | there are any | steps without a finite gradient
skipped_steps.all      | whole | | since the job's start
skipped_steps.in_a_row | whole | | just now
loss           | number nats | a step was seen | mean a token of the newest batch
tokens_per_second | number 1/s | it has begun here | over the last steps, all members together
flops_per_second  | number 1/s | it is known | of all members together
utilisation    | number   | it is known | flops_per_second as a share of what the devices could do
seconds_left   | number s | it has begun here | at this speed; 0: not known
sync_received_bytes | whole bytes | this node fetches the state of others, or did | of that state
sync_total_bytes    | whole bytes | it is known | of that state
sync_seconds        | number s    | this node fetches the state of others, or did | for how long
sync_followed_steps | whole       | this node fetches the state of others, or did | steps that went on meanwhile
sync_steps_behind   | whole       | this node fetches the state of others, or did | still to be made up for
validation_loss     | number nats | it was measured | mean a token of the data that is held out
validation_accuracy | number      | a model tells classes | share that is right

= train --follow
# After the answer of `train` alone a line when something changes, or every five seconds.
+ @progress

= job follow
# A line when something changes, or every five seconds; the last one tells how it ended.
+ @progress

= job wait
+ @progress

= @jobs
jobs                | list  | | of this node and of others, newest first
jobs[].job          | text  | | its id
jobs[].name         | text  | | its name
jobs[].shown_as     | text  | | the name, or name~id of one that is not the newest of its name
jobs[].submitted    | number s | it is known | when
jobs[].submitter    | text  | it is known | at which node
jobs[].phase        | text  | | as of `job show`, or unreachable: whoever had a part in it does not answer
jobs[].reason       | text  | there is something to say of the phase | in words
jobs[].step         | whole | | the newest committed step
jobs[].steps        | whole | | the last one
jobs[].as_of          | object   | it may be newer somewhere | of when step and loss are
jobs[].as_of.at       | number s | | since 1970
jobs[].as_of.text     | text     | there is something to say of it | in words
jobs[].as_of.seconds_ago | number s | | how long ago
jobs[].finished_at    | number s | it is known | when the job's end was reached, since 1970
jobs[].finished_seconds_ago | number s | it is known | how long ago
jobs[].view         | whole | | the number of the agreement on who trains
jobs[].members      | texts | this node has a part in it | the nodes that train it
jobs[].loss         | number nats | a step was seen | mean a token of the newest batch
jobs[].member_count | whole | only others have a part in it | how many train it
jobs[].known_from   | text  | only others have a part in it | the node that told

= jobs
+ @jobs

= job show
+ @progress
told_by          | text   | another node answers | which; it is "this node" in the texts
data             | text   | it has begun here | where the data is
validation_data  | text   | it is apart | where it is
nodes_wanted     | whole  | it has begun here | as the job file says
on_lost_quorum   | text   | it has begun here | wait or continue
seed             | whole  | it has begun here | of the job file
slices_per_step  | whole  | it has begun here | the units that a step is divided into
fingerprint      | text   | it has begun here | of the bits that its members compute
exchange_mode    | text   | it has begun here | how gradients travel
exchange_note    | text   | it is not exact | what that means for the result
exchange_groups  | free   | mode hierarchical | the members of each site, a list of lists of names
carried_steps    | whole  | it has begun here | results that came from device to device
host_bytes_per_step           | object      | it has begun here | what a step copies
host_bytes_per_step.to_device | whole bytes | | from host memory
host_bytes_per_step.to_host   | whole bytes | | to host memory
state_digest     | text   | it has begun here | of weights and moments after the newest step
data_fingerprint | object | it has begun here | of what was fed in training
data_fingerprint.steps    | whole | | steps that it covers
data_fingerprint.hash_sum | text  | | sum over the samples
data_fingerprint.samples  | whole | | how many
witnessed_from_step | whole | it has begun here | this node has seen the steps from here on
computed         | list   | it has begun here | who computed how much, as far as this node saw
computed[].node  | text   | | the member
computed[].id    | text   | | its id
computed[].slices | whole | | slices that count
refused          | list   | it has begun here | nodes that take no part
refused[].node   | text   | | its name
refused[].id     | text   | | its id
refused[].reason | text   | | why
lost_members     | list   | it has begun here | members that failed
lost_members[].node   | text  | | its name
lost_members[].id     | text  | | its id
lost_members[].reason | text  | | why
lost_members[].step   | whole | | after which step
times            | object   | steps were timed | where the time of the last steps went
times.steps      | whole    | | how many steps
times.step_seconds | number s | | of one, the mean
times.confirm_seconds | number s | | of it until all know that it counts
times.advice     | text     | it is much | what may help
times.members    | list     | | each member's part
times.members[].node             | text     | | its name
times.members[].id               | text     | | its id
times.members[].slices           | whole    | | slices a step
times.members[].slice_seconds    | number s | | of one
times.members[].compute_seconds  | number s | | a step
times.members[].data_seconds     | number s | | waits for samples
times.members[].wait_seconds     | number s | | waits for others
times.members[].exchange_seconds | number s | | sums travel
times.members[].confirm_seconds  | number s | | until the step counts
times.members[].apply_seconds    | number s | | the update
times.members[].sent_bytes       | number bytes | | a step
times.members[].received_bytes   | number bytes | | a step
times.slowest    | object   | one holds the others up | which
times.slowest.node  | text  | | its name
times.slowest.id    | text  | | its id
times.slowest.cause | text  | | compute, data or link
times.slowest.lost_seconds | number s | | a step, of the others
times.slowest.text  | text  | | what may help
times.nobody        | object | no member is named | why
times.nobody.busy   | truth  | | whether other work keeps processors busy
times.nobody.text   | text   | | in words
checkpoint       | object   | this node has written one | the newest
checkpoint.step  | whole    | | after which step
checkpoint.path  | text     | | its folder
damaged_checkpoints | list  | it has begun here | that were set aside
damaged_checkpoints[].step   | whole | | of which step
damaged_checkpoints[].path   | text  | | where it is kept
damaged_checkpoints[].reason | text  | | what is wrong with it
late_disk        | object   | a checkpoint takes too long | which
late_disk.work   | text     | | what the disk does
late_disk.step   | whole    | | of which step
late_disk.seconds | number s | | for how long
late_disk.usual_seconds | number s | | how long it takes else
durable          | object   | a checkpoint is on enough disks | the newest such
durable.step     | whole    | | the job goes back no further
durable.nodes    | whole    | | how many hold it
events           | list     | it has begun here | what happened, the newest 200
events[].seconds_ago | number s | | how long ago
events[].at      | number s | | since 1970
events[].text    | text     | | what
events[].noted_by | text | this node was not there | the member that noted it
proof            | object   | this node's disk has the data | the data read anew by other code
proof.error      | text     | it failed | why
proof.steps      | whole    | it was done | steps that it covers
proof.hash_sum   | text     | it was done | to compare with data_fingerprint
proof.samples    | whole    | it was done | how many
proof.equal_to_data | truth | it was done | whether both are the same
proof.each_sample_once_an_epoch | truth | it was done | none left out, none twice

= job log
+ @progress
told_by          | text     | another node answers | which; it is "this node" in the texts
now              | number s | the job runs here | since 1970
events           | list     | it has begun here | what happened, oldest first
events[].at      | number s | | since 1970
events[].seconds_ago | number s | the job is over here | how long ago
events[].text    | text     | | what
events[].noted_by | text | this node was not there | the member that noted it
commits          | list     | the job runs here | the newest steps
commits[].at     | number s | | since 1970
commits[].step   | whole    | | the step
commits[].view   | whole    | | in which view
commits[].loss   | number nats | it was seen | mean a token
commits[].state_digest | text | it was computed | of weights and moments after it

= @clocks
metadata               | object   | | of the trace
metadata.job           | text     | | the job's name
metadata.clocks        | list     | | of each member
metadata.clocks[].member  | text  | | its name
metadata.clocks[].id      | text  | | its id
metadata.clocks[].answers | whole | | how often its clock was read
metadata.clocks[].offset_us | number us | | how far it is ahead of this node's
metadata.clocks[].uncertainty_us | number us | | and how far that may be off
metadata.clocks[].error      | text  | it gave no spans | why
metadata.clocks[].first_step | whole | its spans begin late | at this step

= job trace
# The trace itself, as Chrome's trace format has it.
traceEvents      | free   | | the events
displayTimeUnit  | text   | | ms
+ @clocks

= job trace --out
path             | text   | | the file that was written
events           | whole  | | how many are in it
+ @clocks

= @order
job              | text   | | its id
shown_as       | text   | | the name, or name~id of one that is not the newest of its name
name             | text   | | its name
phase            | text   | | what it is now
step             | whole  | | the newest committed step
view             | whole  | it did not begin again | the number of the agreement on who trains
base_step        | whole  | it did not begin again | the step that this view went on from
generation       | whole  | it did not begin again | how often the job was recovered by force
members          | texts  | it did not begin again | the nodes that train it
checkpoint_step  | whole  | it did not begin again | this node's newest checkpoint; 0: none

= job stop
+ @order

= job rm
job              | text   | | the job's id
name             | text   | | its name
removed_on       | texts  | | nodes that have nothing of it any more
missing          | list   | | nodes that may still have it
missing[].node   | text   | | its name
missing[].reason | text   | | why

= job resume
+ @order

= job recover
+ @order
)";

}  // namespace gpunode::cli::detail
