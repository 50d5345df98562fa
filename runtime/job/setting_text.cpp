#include "runtime/job/detail/setting_text.hpp"

#include <algorithm>
#include <iterator>

namespace gpunode::job {
namespace {

struct Text {
  std::string_view key, text;
};
constexpr Text kTexts[] = {
    {"labels", "Labels that a node must carry, such as [\"gpu\"]."},
    {"name", "What people call the job, 1 to 64 letters, digits, '-', '_' and '.'. Required."},
    {"nodes",
     "How many nodes compute, at most. More: faster steps as long as a slice each is left and "
     "links carry the sums; one node of a larger cluster trains where it is 1."},
    {"min_nodes",
     "With how many it begins, and goes on. More: it rather waits than goes on slowly; with fewer "
     "fit at the start it waits in the queue."},
    {"on_lost_quorum",
     "\"wait\" for nodes that the last view's majority needs, or \"continue\" without them: nobody "
     "waits, and where two parts went on apart the work of one is given up."},
    {"data.path",
     "A file or folder, read at the node that submits the job and at no other: for more than one "
     "use data.set; a relative path starts at the job file's folder. One of the two is required."},
    {"data.format",
     "\"text\": bytes. \"tokens\": token ids as whole numbers, little-endian. \"table\": numbers, "
     "a sample a line, separated by commas, tabs or spaces as in the first row; the last column is "
     "the label, a whole number from 0 on. A first line that begins with no number is a header, "
     "and skipped."},
    {"data.token_bytes",
     "Bytes of a token id in format tokens: 2, or 4 for vocabularies above 65536."},
    {"data.validation_fraction",
     "Share of the data that is never trained on, drawn over all of it, 0 to below 1. More: a "
     "surer validation loss, less to learn from."},
    {"data.validation_path",
     "A file or folder of the same format to validate on; all of data.path is trained on then."},
    {"data.set",
     "Instead of data.path: the name under which the owner of every node offers the data, by "
     "[data.NAME] in its gpunode.toml or --data NAME=PATH; the same bytes, at any path."},
    {"data.validation_set", "Instead of data.validation_path, likewise."},
    {"model.kind",
     "gpt, llama, bert, mlp, resnet, or a kind that the program of the nodes brings. Its own keys "
     "stand in [model] too."},
    {"model.start",
     "A file of `gpunode model import` or `checkpoint export` whose weights are those before the "
     "first step, read at the node that submits the job alone. Empty: drawn by train.seed."},
    {"model.start_set", "Instead of model.start: the name of a data set, as in data.set."},
    {"train.seed", "Of the first weights and of the order of the data. Same seed, same result."},
    {"train.steps",
     "Updates of the weights. More: longer, and better until the data is learned by heart."},
    {"train.batch", "Samples a step. More: steadier gradients, longer steps."},
    {"train.slices",
     "Parts of a batch that are computed apart and summed in a fixed order. It is part of the "
     "result. More: more nodes can share a step and balance it; more memory for sums, less work at "
     "once."},
    {"train.tree",
     "Radices of the order in which slices are summed, such as [3, 2, 2]; their product is "
     "train.slices. Empty: in pairs. Groups of three suit three members."},
    {"train.learning_rate", "After the warm-up. More: faster, and unstable beyond some point."},
    {"train.min_learning_rate", "Where the cosine decay ends, at the last step."},
    {"train.warmup_steps",
     "Steps in which the rate rises to train.learning_rate. More: a calmer beginning."},
    {"train.beta1", "AdamW: how slowly the mean gradient forgets, below 1."},
    {"train.beta2", "AdamW: how slowly the mean square forgets, below 1."},
    {"train.epsilon", "AdamW: what is added to the root of the mean square."},
    {"train.weight_decay",
     "AdamW: share of the rate by which weights shrink a step. More: less learned by heart."},
    {"train.clip",
     "Largest norm of a gradient, 0: no clipping. Smaller: calmer; a clipped sum is waited for as "
     "a whole."},
    {"train.precision",
     "Of the factors of products: fp32, bf16 (faster where the processor has it, noisier) or tf32 "
     "(NVIDIA). Weights and sums stay fp32."},
    {"checkpoint.every",
     "Steps between checkpoints; the last step always is one. 0: only it. Fewer steps: less is "
     "lost where all members die, more is written."},
    {"checkpoint.keep", "Newest checkpoints kept on each disk. More: further back, more space."},
    {"exchange.bulk",
     "\"sealed\", or \"plain\": sums may go unsealed from GPU to GPU of other machines too, which "
     "trusts all who can read or inject on that network. Where a node was not started with "
     "--bulk-plain, they stay sealed, over the hosts' links; those are unsealed between nodes that "
     "were, whatever is said here."},
    {"exchange.mode",
     "exact (the same bits whoever takes part), hierarchical (the same bits, fewer bytes between "
     "sites), ring, bf16, int8, topk (fewer bytes, the result depends on who takes part), local "
     "(rarely exchanged, for very slow links)."},
    {"exchange.group_by",
     "Mode hierarchical: what one site is, \"machine\" or the key of a label."},
    {"exchange.device_link",
     "\"auto\": sums of mode exact go from GPU to GPU where they can reach each other. \"off\": "
     "over the hosts' links. Same bits."},
    {"exchange.density",
     "Mode topk: share of the values that is sent. More: nearer to exact, more bytes."},
    {"exchange.inner_steps",
     "Mode local: steps that a member does alone. More: fewer bytes, coarser training."},
    {"exchange.form", "Mode local: how changes of weights travel: exact, bf16, int8 or topk."},
    {"exchange.outer_rate", "Mode local: how far the members' mean change is followed."},
    {"exchange.outer_momentum", "Mode local: how much of the last changes goes on."},
    {"exchange.rounds_ahead",
     "Mode local: 1: changes travel while the next round is computed; 0: it waits for them."},
};

}  // namespace

std::string setting_text(std::string_view key) {
  const auto* found = std::ranges::find(kTexts, key, &Text::key);
  return found == std::end(kTexts) ? "" : std::string(found->text);
}

}  // namespace gpunode::job
