// What commands of models, checkpoints, this machine and this program answer; answers.hpp tells how it is written. Times of day are seconds
// since 1970.
#include "tools/gpunode/answers.hpp"

namespace gpunode::cli::detail {

const char* const kModelAnswers = R"(
= serve
model          | text     | | what it is called
path           | text     | | what was loaded
step           | whole    | it is known | of the checkpoint
steps          | whole    | it is a job's | that job's last one
job            | text     | it is a job's | that job's id
description    | text     | | kind and size
version        | whole    | | its number under that name
digest         | text     | | of all that it is made of: weights as they are kept, tokenizer and the like
weights        | text     | | the format that they are kept in: fp32, bf16, int8, int4
draft          | text     | it has one | digest of the smaller model that guesses its tokens
deterministic  | truth    | it was asked for | true: a text is the same whatever others are read beside it, on a GPU too
draft_left_out | truth    | a copy of one with a draft | true: it has none, as no --draft named one
differs_from   | texts    | there are any | live nodes that serve another version under that name
part           | text     | it is one of a model's | which of how many, as 2/3
missing_parts  | texts    | there are any | parts that no live node serves, without which part 1 refuses calls

= unserve
model          | text     | | what was withdrawn

= @models
models         | list     | | what is served in the cluster, a line for each node that does
models[].model | text     | | what it is called; of a part of one that is not its first, which cannot be called, also that: big/2/3
models[].node  | text     | | who serves it
models[].step  | whole    | it is known | of the checkpoint
models[].asleep | truth   | nobody asked it for long | true: the next request loads it
models[].deterministic | truth | it was asked for | true: its texts do not depend on others, on a GPU too
models[].version | whole   | it is known | its number under that name
models[].part  | text     | it is one of a model's | which of how many, as 2/3
models[].digest | text    | it is known | of all that it is made of
models[].weights | text   | it is known | the format that they are kept in: fp32, bf16, int8, int4
models[].job   | text     | it is a job's | that job's id
models[].draft | text     | it has one    | digest of the smaller model that guesses its tokens

= models
+ @models

= status
+ @nodes
+ @jobs
+ @models

= generate
model          | text     | | the model
text           | text     | | what it generated, or a line a row
tokens         | whole    | | how many
prompt_tokens  | whole    | | that were read before it
finish         | text     | | what ended it
version        | whole    | | of the model under its name
digest         | text     | | of all that it is made of
step           | whole    | | of the checkpoint
seconds        | number s | | how long it took

= @checkpoint
checkpoints[].job          | text        | | the job's id
checkpoints[].step         | whole       | | after which step
checkpoints[].turn         | whole       | | tells checkpoints of one step apart, after a recovery
checkpoints[].path         | text        | | its folder
checkpoints[].name         | text        | it is known | the job's name
checkpoints[].bytes        | whole bytes | it can be read | its size
checkpoints[].state_digest | text        | it can be read | of weights and moments
checkpoints[].unix_seconds | whole s     | it can be read | when it was written, since 1970
checkpoints[].samples      | whole       | it can be read | that were trained on
checkpoints[].error        | text        | it is damaged | what is wrong with it

= checkpoint ls
checkpoints                | list        | | by job and step
+ @checkpoint

= checkpoint verify
# With a damaged one ok is false, and the list is there too.
checkpoints                | list        | | by job and step
+ @checkpoint
checkpoints[].whole        | truth       | | whether every byte is as it was written

= checkpoint export
path           | text        | | the file that was written
bytes          | whole bytes | | its size
sha256         | text        | | of the whole file
job            | text        | | the job's id
name           | text        | | its name
step           | whole       | | of the checkpoint

= checkpoint rm
job            | text        | | the job's id
removed_steps  | free        | | of the checkpoints that were removed, a list of numbers
kept_on        | texts       | it was a finished job's result | nodes that answer and have it still

= @model
path           | text          | | what was written
bytes          | whole bytes   | | its size
sha256         | text          | | of the weights' file
kind           | text          | | as in [model] of a job file
name           | text          | | kind and size in words
settings       | texts by name | | as in [model] of a job file
parameters     | whole         | | how many numbers it learned

= model import
+ @model

= model export
+ @model

= quantize
path           | text        | | the folder that was written
bytes          | whole bytes | | of packed.safetensors
sha256         | text        | | of that file
digest         | text        | | of all that the model is made of, as a node that serves it tells it
kind           | text        | | as in [model] of a job file
name           | text        | | kind and size in words
weights        | text        | | the format
parameters     | whole       | | how many numbers the model learned
packed         | whole       | | how many of them are in that format; the others are fp32
bits           | number      | | a parameter, on the average
percent_off    | number      | | root of the squared differences by that of the squared weights

= doctor
# With a finding of grade fail ok is false, and the list is there too.
findings           | list | | what was looked at
findings[].subject | text | | ports, clock, disk, ...
findings[].grade   | text | | ok, warn or fail
findings[].text    | text | | what was seen
findings[].remedy  | text | | what to do; empty where all is well

= @rate
op                | text      | | the operation; slice: a whole one
dtype             | text      | | of its operands
shapes            | text      | | of its operands
calls             | whole     | | in a slice
flops             | number    | | arithmetic operations of a call
bytes             | number bytes | | read and written by a call
seconds           | number s  | | of a call
flops_per_second  | number 1/s | | on all threads
bytes_per_second  | number bytes/s | | on all threads
of_peak_flops     | number    | | share of the fastest product
of_copy_bandwidth | number    | | share of a large copy

= bench compute
device            | text      | | as given
name              | text      | | the hardware's name
instruction_set   | text      | | which of its instructions are used
library           | text      | | what multiplies matrices
threads           | whole     | | slices under way at once
precision         | text      | | of products
peak_flops_per_second | number 1/s | | of the fastest product
peak_product      | text      | | its shape
copy_bytes_per_second | number bytes/s | | of a large copy
models            | list      | | what was measured
models[].model    | text      | | its name
models[].samples  | whole     | | in a slice
models[].operations | list    | | one operation each
+ models[].operations[] @rate
models[].slice    | list      | | all of a slice
+ models[].slice[] @rate

= @percentiles
p50            | number s | | half of them took no longer
p90            | number s | | nine of ten took no longer
p99            | number s | | 99 of a hundred took no longer
max            | number s | | the longest

= bench infer
model          | text     | | the model
kind           | text     | | texts or rows
http           | text     | --http | where it was asked
askers         | whole    | | at once in the first part
full           | object   | without --rate | what the model can do: asked by so many in turn
full.seconds   | number s | | how long that took
full.answered  | whole    | | requests
full.requests_per_second | number 1/s | | answered
full.tokens_per_second | number 1/s | | of texts; or rows
load           | object   | | requests that came by chance
load.rate      | number 1/s | | requests that were due in a second
load.of_full   | number   | without --rate | share of what the model can do
load.seconds   | number s | | until the last was answered
load.asked     | whole    | | requests
load.answered  | whole    | | of them; the times are theirs
load.requests_per_second | number 1/s | | answered
load.tokens_per_second | number 1/s | | of texts; or rows
load.prompt_tokens | number | | read for a text, on the average
load.tokens    | number   | | of a text, on the average; or rows of a request
load.late      | number s | | begun so long after it was due at worst; counts in the times
load.answer    | object   | | from when it was due to the whole answer
+ load.answer @percentiles
load.first     | object   | of texts | from when it was due to the first piece
+ load.first @percentiles
load.token     | object   | of texts | a token behind the first piece
+ load.token @percentiles
load.p99_by_p50 | number  | | of the times to the whole answer
failed         | list     | | what was refused or failed, in both parts
failed[].kind  | text     | | timeout, resource_exhausted, ...
failed[].count | whole    | | requests

= version
version           | text      | | of gpunode
cuda              | truth     | | whether this build has CUDA
instruction_set   | text      | | the widest that this processor offers
build             | text      | | Release, Debug, ...
compiler          | text      | | its version
libraries         | texts by name | | and their versions

= help
commands                       | list   | | the table of commands
commands[].name                | text   | | one or two words
commands[].usage               | text   | | how it is written
commands[].aliases             | texts  | | other names of it
commands[].summary             | text   | | what it does
commands[].details             | text   | | more of that
commands[].operands            | list   | | words that it takes
commands[].operands[].name     | text   | | as in usage
commands[].operands[].text     | text   | | what it means
commands[].operands[].required | truth  | | whether it must be there
commands[].flags               | list   | | flags that it takes
commands[].flags[].name        | text   | | --state
commands[].flags[].value       | text   | | what it takes; empty: a switch
commands[].flags[].text        | text   | | what it means
commands[].flags[].letter      | text   | | -d; empty: none
commands[].flags[].repeatable  | truth  | | whether it may stand more than once
commands[].answers             | list   | | what it answers with --json; one for each form of the command
commands[].answers[].with      | text   | | with this flag or word; empty: without
commands[].answers[].note      | text   | | of the whole; empty: one object on one line
commands[].answers[].fields    | list   | | the fields of the answer
commands[].answers[].fields[].path | text | | a.b: in an object; a[].b: in each object of a list
commands[].answers[].fields[].type | text | | text, texts, whole, number (null: not finite), truth, object, list, texts by name, free
commands[].answers[].fields[].unit | text | | bytes, s, ...; empty: none
commands[].answers[].fields[].when | text | | when it is there; empty: wherever what holds it is
commands[].answers[].fields[].text | text | | what it means
exit_codes                     | texts by name | | what each means

= help =job
keys              | list      | | the keys of a job file
keys[].key        | text      | | train.steps
keys[].type       | text      | | of the value
keys[].default    | text      | | of a job that does not say; empty: none
keys[].text       | text      | | what it means
models            | free      | | by kind its keys in [model], and their defaults
)";

}  // namespace gpunode::cli::detail
