// The one table of commands. A new command is a line here and a function in a file beside this one;
// its help, completion, JSON description and documentation follow.
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {
namespace {

const Flag kState{"--state", "DIR",
                  "the node's state directory (default: $GPUNODE_STATE, else "
                  "~/.local/state/gpunode)"};
const Flag kJson{"--json", "", "print one line of JSON instead of text"};

std::vector<Flag> node_flags(std::vector<Flag> first) {
  const std::vector<Flag> shared = {
      kState,
      {"--listen", "HOST:PORT",
       "control port; bulk is one higher, join two (default 0.0.0.0:7601; port 0 takes free "
       "ones; 'none' listens nowhere and only dials)"},
      {"--allow", "CIDR",
       "who may dial the three ports: 10.0.0.0/8, fd00::/8 or an address (default: anybody); this "
       "machine may in any case",
       true},
      {"--advertise", "HOST[:PORT]",
       "the address under which others reach this node; it must be reachable"},
      {"--name", "NAME", "a label for people (default: the host's name)"},
      {"--label", "KEY=VALUE", "what jobs may ask for", true},
      {"--data", "NAME=PATH",
       "a file or folder that jobs of every node that may submit read here by that name "
       "(data.set); "
       "[data.NAME] in gpunode.toml can say for whose jobs alone",
       true},
      {"--threads", "N", "compute threads (default: one a core)"},
      {"--device", "DEVICES",
       "what to compute on: auto (every GPU that can, else the CPU; the default), cpu, cuda (every "
       "GPU), cuda:0,2 (just these)"},
      {"--device-timeout", "TIME",
       "a device that shows no sign of getting on for so long is lost (default 2m)"},
      {"--on-device-loss", "restart|stay",
       "start the node's process anew, which is what gives a GPU back, or go on without the device "
       "(default restart)"},
      {"--metrics", "HOST:PORT",
       "answer GET /metrics there for Prometheus; loopback alone, port 0 takes a free one; 'none' "
       "ends what an earlier start was told (default: not at all)"},
      {"--http", "HOST:PORT",
       "answer OpenAI's completions and KServe's protocol there for every model that the cluster "
       "serves; beyond loopback "
       "it "
       "wants keys (`http-key create`) and TLS; port 0 takes a free one; 'none' ends what an "
       "earlier "
       "start was told (default: not at all)"},
      {"--http-tls-cert", "FILE",
       "speak TLS 1.3 at --http with this certificate (PEM, its chain behind it); read anew when "
       "it "
       "changes; 'none' ends it"},
      {"--http-tls-key", "FILE", "the certificate's private key (PEM, readable by you alone)"},
      {"--cors-origin", "ORIGIN",
       "a page that browsers may ask --http from, https://HOST[:PORT], or '*' where keys are "
       "wanted; "
       "'none' ends it (default: no page)",
       true},
      {"--insecure-http", "no-keys,no-tls",
       "let --http stand beyond loopback without keys, without TLS, or both; 'none' ends it"},
      {"--bulk-plain", "",
       "let bulk traffic go unsealed to peers that allow it too; trusts that network"},
      {"--detach", "",
       "go to the background once the node is up; `gpunode logs` shows what it says", false, "-d"},
      {"--config", "FILE", "settings and data sets (default: gpunode.toml in the state directory)"},
      {"--log-json", "", "write the log in JSON, a record a line"},
      {"--no-sandbox", "",
       "let the node's process write and start what its user may; else it writes in the state "
       "directory alone, and the kernel refuses it what nodes never do (`doctor` tells what it "
       "can)"},
      kJson};
  first.insert(first.end(), shared.begin(), shared.end());
  return first;
}

std::vector<Command> make_commands() {
  return {
      {"up",
       "start this machine's node",
       "Goes on with the cluster of the state directory, or founds a new one. Stays in the "
       "foreground; SIGTERM or Ctrl-C leaves politely, a second one stops at once. There is no "
       "core "
       "dump of it, and no other process may read its memory; GPUNODE_DUMPABLE=1 in the "
       "environment "
       "allows both, for who debugs it.",
       {},
       node_flags({}),
       run_up},
      {"join",
       "start this machine's node and join a cluster",
       "Needs a token of `gpunode token create`, from a file, standard input or the environment "
       "variable GPUNODE_TOKEN; never from an argument, which other users of the machine could "
       "read. A node that was admitted once restarts without it.",
       {{"HOST[:PORT]", "the join address of any node that is up (port 7603 by default)"}},
       node_flags({{"--token-file", "FILE", "file that holds the token; '-' is standard input"}}),
       run_up},
      {"leave",
       "say goodbye to the cluster and stop the node",
       "Its jobs are handed over first: they go on without it; returns when it has left. Refused "
       "by the last node that holds the state of a job. Restarting with the same state directory "
       "comes back.",
       {},
       {{"--anyway", "", "leave a job behind: its state is saved here, and it waits for this node"},
        kState,
        kJson},
       run_leave},
      {"config",
       "show what the node starts with, and where each value comes from",
       "A flag of `up` comes first, then gpunode.toml in the state directory (keys as listed here, "
       "and "
       "[data.NAME] with a path for each data set that jobs may name), then what an earlier start "
       "was "
       "told: name, labels, addresses, where metrics are. Needs no node.",
       {},
       {{"--config", "FILE", "the file (default: gpunode.toml in the state directory)"},
        {"--forget", "", "first forget what earlier starts were told"},
        kState,
        kJson},
       run_config},
      {"logs",
       "show what the node has said",
       "Of this state directory's node, also when it does not run any more. Its file is "
       "DIR/node.log; "
       "a full one (16 MiB) becomes node.log.1, and four older ones are kept. SIGHUP makes the "
       "node "
       "open it anew.",
       {},
       {{"--follow", "", "go on with what it says from now on, until Ctrl-C"},
        {"--lines", "N", "how many lines, the newest ones (default 100)"},
        kState,
        kJson},
       run_logs},
      {"status",
       "show the nodes, jobs and served models of the cluster at a glance",
       "`nodes`, `jobs` and `models` in one.",
       {},
       {kState, kJson},
       run_status},
      {"nodes", "list the nodes of the cluster", "", {}, {kState, kJson}, run_nodes},
      {"devices",
       "list the devices that this node computes on",
       "Which jobs have a part on each, by name; one that is lost, or drained for its health, "
       "tells why.",
       {},
       {kState, kJson},
       run_devices},
      {"device drain",
       "let a device finish what it has begun, and take no more work",
       "The node's jobs go on with its other devices; when `gpunode devices` names no job of it, "
       "it "
       "is free. A job that can only be computed there stays, and is named. The last device is not "
       "drained: `gpunode leave` hands the node's jobs over.",
       {{"DEVICE", "cuda:1, as `gpunode devices` lists it"}},
       {kState, kJson},
       run_device_order},
      {"device resume",
       "let a drained device take work again",
       "Of jobs that begin on this node from now on. A GPU that was drained for its health, as it "
       "is too hot, comes back by itself; resumed before, it works on against that verdict.",
       {{"DEVICE", "cuda:1, as `gpunode devices` lists it"}},
       {kState, kJson},
       run_device_order},
      {"token create",
       "make a token that lets another machine join",
       "Prints the token alone on standard output.",
       {},
       {{"--ttl", "TIME", "how long it is good: 30s, 15m, 2h (default 15m)"},
        {"--uses", "N", "how many nodes it admits (default 1)"},
        {"--role", "ROLES",
         "what they may do: compute, submit, serve, call, admit, operate, observe, or all (default "
         "compute,call)"},
        {"--label", "TEXT", "tells it from others in `token ls`"},
        {"--out", "FILE", "write it there, readable by you alone, instead of printing it"},
        kState,
        kJson},
       run_token_create},
      {"token ls",
       "list the tokens that this node made and that are good still",
       "The tokens themselves are kept nowhere.",
       {},
       {kState, kJson},
       run_token_ls},
      {"token revoke",
       "end a token before its time",
       "On the node that made it. Who joined with it stays.",
       {{"TOKEN", "its id or label, as `gpunode token ls` lists it"}},
       {kState, kJson},
       run_token_revoke},
      {"http-key create",
       "make a key for who asks over HTTP",
       "Prints the key alone on standard output, once: only its hash is kept, in http_keys.json of "
       "the "
       "state directory. From the first key on --http answers nobody without one. Needs no node; "
       "one "
       "that runs knows it within a second.",
       {{"NAME", "whose it is, for people"}},
       {{"--models", "LIST", "the models it may use: a,b (default: all)"},
        {"--may", "RIGHTS",
         "infer, list, metrics, priority (of texts that wait), or all (default infer,list)"},
        {"--rate", "N", "requests a minute (default: any)"},
        {"--tokens", "N",
         "tokens a minute on the average, of prompts and texts: what one request takes beyond is "
         "owed (default: any)"},
        {"--at-once", "N", "requests under way at one time (default: any)"},
        {"--expires", "TIME", "it ends after this: 12h, 30d (default: never)"},
        {"--out", "FILE", "write it there, readable by you alone, instead of printing it"},
        kState,
        kJson},
       run_http_key_create},
      {"http-key ls",
       "list the keys for HTTP, and what each may",
       "Needs no node.",
       {},
       {kState, kJson},
       run_http_key_ls,
       {"http-key list"}},
      {"http-key revoke",
       "end a key for HTTP",
       "Who uses it is refused within a second, and what is under way for it is cut. Needs no "
       "node.",
       {{"NAME", "its name or id, as `gpunode http-key ls` lists it"}},
       {kState, kJson},
       run_http_key_revoke,
       {"http-key rm"}},
      {"node revoke",
       "put a node out of the cluster, for good",
       "From any node that may operate. All nodes close their links to it, those that are away "
       "when they are back, before they hear it; its jobs go on without it. The machine can come "
       "back as another node: with a new state directory and a new token.",
       {{"NODE", "its name or id, as `gpunode nodes` lists it"}},
       {{"--reason", "TEXT", "for the logs of all nodes"},
        {"--with-admitted", "", "put out whom it let in, too"},
        {"--restore-revoked", "",
         "members again are those that NODE has put out, as it had turned against the others"},
        kState,
        kJson},
       run_node_revoke},
      {"keys rotate",
       "give this node's links a new key",
       "Its sessions close and open again under the new key, in less than a second; jobs go on. "
       "The "
       "node stays who it is, and its signing key the same: where that may be in wrong hands, put "
       "the "
       "node out and let the machine join as another one. Tokens that were made here end.",
       {},
       {kState, kJson},
       run_keys_rotate},
      {"cluster refound",
       "found the cluster anew from its recovery key, where its founder is lost or taken",
       "This node has all roles from then on. Those that are put out are so for good, whatever "
       "they "
       "had: who was put out by them is back, and who was let in by them stays or, "
       "--with-admitted, falls out with them. Jobs of the others go on. Where a node has closed "
       "its "
       "links to this one, as it had heard that it was put out, order the same there: the last "
       "order "
       "counts. Tokens of nodes that are out admit nobody.",
       {},
       {{"--recovery-key", "FILE",
         "what `gpunode up` wrote to recovery.key in the founder's state directory"},
        {"--without", "NODE", "put this node out: a name or id of `gpunode nodes`", true},
        {"--with-admitted", "", "and those that it let in; they join anew by tokens of this node"},
        {"--check", "", "only tell what would become of whom"},
        kState,
        kJson},
       run_cluster_refound},
      {"audit show",
       "show who was let in, refused and put out, and what was ordered",
       "Of this state directory's node, oldest first, also when it does not run. The newest 64 MiB "
       "are kept.",
       {},
       {{"--since", "TIME", "no older than this: 30m, 2h"},
        {"--kind", "EVENT", "these alone: node_admitted, job_recovered, member_refused and so on"},
        kState,
        kJson},
       run_audit_show},
      {"audit verify",
       "check that no entry of the audit log was changed, dropped or added",
       "Each entry is signed and holds the hash of the one before it. What a node's own disk "
       "cannot "
       "show, a log that was put back as it was some other day, its peers tell when it is back. "
       "Needs no node.",
       {},
       {kState, kJson},
       run_audit_verify},
      {"train",
       "start a training job",
       "Reads a job file (TOML). Answers once a quorum of the candidates has the job on disk. "
       "Where "
       "fewer nodes than its min_nodes are fit for now, it waits in the queue, on the disks of up "
       "to "
       "five nodes, and starts by itself, once; first come, first started.",
       {{"JOB.toml", "the job file; relative paths in it are taken from its folder"}},
       {{"--check", "",
         "start nothing: tell who would take part, what each computes, sends and needs, and what "
         "would be refused"},
        {"--follow", "", "show step, loss, speed, members and time left until it ends"},
        {"--no-wait", "", "be refused rather than wait in the queue"},
        kState,
        kJson},
       run_train},
      {"jobs", "list jobs", "", {}, {kState, kJson}, run_jobs, {"job ls"}},
      {"job show",
       "show all that is known of a job",
       "Who computed how much, what happened, and the proof of what was fed: the running sum "
       "compared with an independent scan of the data.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {kState, kJson},
       run_job_show},
      {"job trace",
       "write a trace of a job's newest steps over all its members",
       "Chrome (about:tracing) and ui.perfetto.dev open it. What every member computed, sent, "
       "added and waited for, on one clock; how far the clocks may be off stands in its metadata.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--steps", "N", "how many steps, the newest ones (default 8)"},
        {"--out", "FILE", "the file to write (default: standard output)"},
        kState,
        kJson},
       run_job_trace},
      {"job log",
       "show what happened to a job, and when",
       "As this node saw it: views, pauses, checkpoints, and how long each change held the job "
       "up. --json also lists the newest commits with time, view and state digest.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {kState, kJson},
       run_job_log},
      {"job follow",
       "show a job's progress until it ends",
       "As `train --follow`, also of a job that others have started, on any node. Ctrl-C ends the "
       "watching, not the job.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {kState, kJson},
       run_job_follow},
      {"job wait",
       "wait until a job ends; the exit code tells how",
       "0: finished. 1: failed, or removed meanwhile. 4: stopped. 5: it goes on, and the time is "
       "over.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--timeout", "TIME", "no longer than this (default: as long as it takes)"}, kState, kJson},
       run_job_wait},
      {"job stop",
       "stop a job; its state is kept",
       "Every member stops after the step that is under way and writes a checkpoint. Answers when "
       "this node's is on its disk; `gpunode job show` on the others tells of theirs.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {kState, kJson},
       run_job_stop,
       {"job cancel"}},
      {"job rm",
       "remove a job that is over or stopped, with its checkpoints",
       "From every node that answers, and says which; the others remove it when they are back. "
       "Refused while it runs, and where several jobs bear the name. What is served of it stays "
       "until `unserve`; a restart finds nothing to load.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--force", "", "also one that waits for members which do not answer"}, kState, kJson},
       run_job_rm},
      {"job resume",
       "let a stopped or failed job go on; where its state is lost, from an older checkpoint",
       "The nodes that voted in its last view form it again, also after a restart of all. Where "
       "this node's part in it failed, it begins again here, from the newest checkpoint or with "
       "the state of its members, once the cause is mended. --from is for a job that waits for a "
       "durable checkpoint whose holders are lost for good: it goes back to an older one, and what "
       "was done since is lost. Written to the audit log.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--from", "STEP",
         "go back to the checkpoint of this step; 0 begins anew; refused by a node that holds the "
         "job's newest state"},
        kState,
        kJson},
       run_job_stop},
      {"job recover",
       "let a job go on without the nodes that it waits for",
       "For nodes that are lost for good. Whoever answers goes on as a new generation; what only "
       "the others did is lost, and they yield when they come back. Written to the audit log.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--force", "", "yes, give up on the nodes that do not answer"},
        {"--anew", "", "also what was called durable, where this node has no copy of it"},
        kState,
        kJson},
       run_job_stop},
      {"serve",
       "serve the model of a checkpoint from this node",
       "Any node of the cluster can then generate with it; after a restart it is served again. "
       "What "
       "is served gets a version, the next number where its content is another one under that "
       "name; "
       "--model NAME@NUMBER asks for one version alone. --replace loads and probes it beside the "
       "one "
       "that answers, which then answers what it was asked and goes. --copy takes what other nodes "
       "serve from all of them at once, and follows them to newer versions, or stays with "
       "--version. Each --replace and --copy names its own --draft, or has none; --rollback brings "
       "back the one that was there.",
       {{"JOB|PATH",
         "a job with a durable checkpoint on this node, or a path; with --copy or --rollback a "
         "model"}},
       {{"--name", "NAME", "what the model is called (default: the job's name)"},
        {"--replace", "", "in place of the one that this node serves under the name"},
        {"--part", "K/N",
         "the K-th of N parts of it, for a model that is too large for one node: the node with "
         "part "
         "1 answers once others have all other parts"},
        {"--copy", "", "as the other nodes serve it"},
        {"--version", "NUMBER", "with --copy: that one for good, not the newest"},
        {"--idle", "DURATION",
         "give its memory back when nobody has asked it for so long; the next request loads it "
         "again"},
        {"--draft", "PATH",
         "a smaller model with the same tokenizer on this node that guesses the next tokens of a "
         "few "
         "texts: the same texts, sooner; a copy has none of its own"},
        {"--deterministic", "",
         "on a GPU too, a text is the same whatever others are read beside it, which takes slower "
         "products; on a CPU it always is"},
        {"--rollback", "", "what was replaced last on this node, as the newest version"},
        {"--weights", "FORMAT",
         "keep them in memory as fp32, bf16, int8 or int4 (default: as they are stored quantised, "
         "else "
         "fp32)"},
        kState,
        kJson},
       run_serve},
      {"unserve",
       "stop serving a model from this node",
       "It answers what it was asked before, for up to 20 s, then ends it. This answers when its "
       "memory is free; other nodes that serve it go on.",
       {{"MODEL", "as `gpunode models` lists it"}},
       {kState, kJson},
       run_unserve},
      {"metrics",
       "print the node's figures in the Prometheus text format",
       "Jobs, calls, GPUs, disk, nodes, bytes on the links. `up --metrics 127.0.0.1:9464` serves "
       "the "
       "same over HTTP.",
       {},
       {kState, kJson},
       run_metrics},
      {"models", "list the models that are served, and where", "", {}, {kState, kJson}, run_models},
      {"generate",
       "generate text with a served model",
       "The text goes to standard output, what is said about it to standard error. A model that "
       "tells classes reads rows of a table, without labels, also below a header, and answers "
       "each with a line.",
       {},
       {{"--model", "NAME", "the model (required)"},
        {"--prompt", "TEXT", "how the text begins (default: a line end)"},
        {"--prompt-file", "FILE", "the same from a file; '-' is standard input"},
        {"--max-tokens", "N", "how much is generated at most (default 128)"},
        {"--temperature", "T", "0 takes the likeliest token each time (default 1.0)"},
        {"--top-k", "K", "draw from the K likeliest tokens only (default 0: all)"},
        {"--top-p", "P", "draw from the likeliest that have chance P together (default 1: all)"},
        {"--min-p", "P", "draw from those P times as likely as the likeliest (default 0: all)"},
        {"--repetition-penalty", "R", "what was said already is R times less likely (default 1)"},
        {"--stop", "TEXT", "end before this; can be given several times", true},
        {"--seed", "N", "same seed, same text (default 1)"},
        {"--priority", "N", "where texts wait, higher ones go first: 0 (default) to 100"},
        {"--timeout", "TIME", "give up after this time (default 30s)"},
        kState,
        kJson},
       run_generate},
      {"checkpoint ls",
       "list the durable checkpoints of a state directory",
       "Needs no node.",
       {},
       {kState, kJson},
       run_checkpoint_ls},
      {"checkpoint verify",
       "read every byte of checkpoints and compare all checksums",
       "Needs no node. Names shard and byte range of what is damaged, and then exits with 1.",
       {{"JOB", "only those of this job", false}},
       {{"--step", "N", "only the one of this step"}, kState, kJson},
       run_checkpoint_verify},
      {"checkpoint export",
       "write the weights as one safetensors file",
       "Needs no node. One that turns out to be damaged is moved aside, and named.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--out", "FILE", "the file to write (required)"},
        {"--step", "N", "the checkpoint of this step (default: the newest)"},
        kState,
        kJson},
       run_checkpoint_export},
      {"checkpoint rm",
       "remove checkpoints of a job that is over from this node",
       "Other nodes keep theirs. A job that is not over goes on from its checkpoints, and keeps "
       "as many as its file says.",
       {{"JOB", "its name, name~id, or the beginning of its id"}},
       {{"--step", "N", "the one of this step"}, {"--all", "", "all of them"}, kState, kJson},
       run_checkpoint_rm},
      {"model import",
       "turn a model of transformers, timm or torchvision into one that jobs start from",
       "Reads config.json and the safetensors beside it: GPT-2, Llama, Mistral, Qwen2 and BERT of "
       "transformers, ResNet-18 and its like of timm; or a ResNet's state_dict alone, saved as "
       "safetensors. Prints the [model] section of a job that goes on from it. Needs no node.",
       {{"PATH", "what save_pretrained() wrote, a snapshot folder of the hub's cache, or a file"}},
       {{"--out", "FILE", "the file to write (required)"},
        {"--context", "N",
         "positions that it shall read at most, for models that have no table of them"},
        {"--image", "SIZE", "of a ResNet: 224, or 224x160 with the height first"},
        kJson},
       run_model_import},
      {"model export",
       "write a model as a folder that transformers loads, or timm and torchvision",
       "Needs no node.",
       {{"PATH", "a file of `checkpoint export` or `model import`, or a checkpoint's folder"}},
       {{"--out", "FOLDER", "where config.json and model.safetensors go (required)"}, kJson},
       run_model_export},
      {"quantize",
       "write a model with smaller weights, for `serve`",
       "In int8 a weight takes 8.5 bits, in int4 4.5: groups of 32 share a scale. Tells how far "
       "the "
       "weights are from what they were. Needs no node.",
       {{"PATH", "what `serve` takes a path of: a folder of transformers, a file, a checkpoint"}},
       {{"--out", "FOLDER", "where packed.safetensors and the tokenizer go (required)"},
        {"--weights", "FORMAT", "int8 (default), int4 or bf16"},
        {"--context", "N",
         "positions that it shall read at most, for models that have no table of them"},
        kJson},
       run_quantize},
      {"doctor",
       "check this machine, and say what to do",
       "Driver against CUDA, ports, clock, disk, limits, /proc and the state directory. Exits "
       "with 1 when something would keep a node from working.",
       {},
       {{"--listen", "HOST:PORT", "the ports that a node would take (default 0.0.0.0:7601)"},
        kState,
        kJson},
       run_doctor},
      {"bench compute",
       "measure what this machine reaches of its own peaks",
       "Operation by operation of a training slice, and the whole of it: arithmetic against the "
       "fastest large product and bytes against a large copy, measured in the same run. Needs no "
       "node; a machine that computes something else shows less.",
       {},
       {{"--device", "DEVICE", "cpu, cuda or cuda:N (default cpu)"},
        {"--threads", "N", "on a CPU: slices under way at once (default: one a core)"},
        {"--model", "NAME", "small-gpt, gpt2-124m or resnet18 (default: all)", true},
        {"--samples", "N", "in a slice (default: 3, 1 and 4, as the models stand above)"},
        {"--precision", "NAME", "of products: fp32, bf16 or tf32 (default fp32)"},
        {"--ops", "LIST", "these operations alone: linear,attention; 'slice' is the whole of one"},
        {"--filter", "TEXT", "only lines with this in model, operation, type or operands"},
        {"--seconds", "S", "how long each line is measured, three calls at least (default 0.1)"},
        kJson},
       run_bench_compute},
      {"bench infer",
       "measure how fast a served model answers under load",
       "First so many askers ask in turn, which finds the requests a second that the model can do; "
       "then requests come by chance (Poisson) at a share of that, whether earlier ones are "
       "answered or not, and their times count from when they were due. What fails is told by its "
       "kind and counts in no time. Texts are streamed; a model of rows is asked for rows.",
       {},
       {{"--model", "NAME", "the model (required)"},
        {"--load", "PERCENT", "how many requests come, of what the model can do (default 70%)"},
        {"--rate", "R", "so many requests a second instead"},
        {"--seconds", "S", "how long each of the two parts takes (default 10)"},
        {"--askers", "N", "requests at once in the first part (default 16)"},
        {"--prompt-tokens", "N", "of a text (default 32)"},
        {"--max-tokens", "N", "to be generated (default 32)"},
        {"--rows", "N", "in a request, of a model of rows (default 1)"},
        {"--seed", "N", "of what is asked, and when (default 1)"},
        {"--timeout", "TIME", "of a request (default 30s)"},
        {"--http", "URL", "ask there, by OpenAI's completions or KServe's infer; http:// alone"},
        {"--key-file", "FILE", "with --http: the API key of who asks"},
        kState,
        kJson},
       run_bench_infer},
      {"version", "print the version and what this build can do", "", {}, {kJson}, run_version},
      {"help",
       "print help; with --json a description of all commands",
       "",
       {{"COMMAND", "the command to explain", false}},
       {{"--markdown", "", "all commands as a page of documentation"}, kJson},
       run_help},
      {"completion",
       "print a script that completes commands and flags",
       "For bash: source <(gpunode completion bash); for zsh: source <(gpunode completion zsh) "
       "after "
       "compinit.",
       {{"SHELL", "bash or zsh"}},
       {},
       run_completion},
  };
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table = make_commands();
  return table;
}

}  // namespace gpunode::cli
