// A program of your own with a model of your own: registers the bigram, starts a node, trains it on
// a text as a job (which other nodes with this program could join), serves it and continues a text.
#include <actors/node/node_json.hpp>
#include <kernels/model/registry.hpp>
#include <runtime/base/log.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bigram.hpp"

namespace {

using nlohmann::json;

constexpr const char* kJob = R"(
name = "shells"
[data]
path = "text.txt"
[model]
kind = "bigram"
context = 16
[train]
steps = 150
batch = 16
slices = 4
learning_rate = 0.1
min_learning_rate = 0.01
warmup_steps = 5
weight_decay = 0.0
)";

}  // namespace

int main() {
  auto registered = gpunode::model::register_model("bigram", embed::Bigram::create);
  char scratch[] = "/tmp/gpunode-embed-XXXXXX";
  if (!registered || !mkdtemp(scratch)) return 1;
  const std::string folder = scratch;
  std::ofstream text(folder + "/text.txt");
  for (int i = 0; i < 400; ++i) text << "she sells sea shells by the sea shore. ";
  text.close();

  // What the node has to say, in this program's own form; warnings and errors are enough here.
  gpunode::log::set_sink([](const gpunode::log::Record& record) {
    if (record.level != "info") std::fprintf(stderr, "embed: %s\n", record.text.c_str());
  });
  gpunode::NodeConfig config;
  config.state_directory = folder + "/state";
  config.listen = "127.0.0.1:0";
  auto node = gpunode::Node::start(config);
  if (!node) {
    std::fprintf(stderr, "embed: %s\n", node.error().message().c_str());
    return 1;
  }

  const json job = *gpunode::ask(**node, "train", {{"job_file", kJob}, {"directory", folder}});
  json progress;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    progress = *gpunode::ask(**node, "job.progress", {{"job", job.at("job")}});
  } while (progress["phase"] != "finished" && progress["phase"] != "failed");
  std::printf("%s at step %d, loss %.2f nats a byte\n", progress.value("phase", "").c_str(),
              progress.value("step", 0), progress.value("loss", 0.0));

  (void)*gpunode::ask(**node, "serve", {{"job", job.at("job")}, {"name", "shells"}});
  const json answer = *gpunode::ask(**node, "generate",
                                    {{"model", "shells"}, {"prompt", "she "}, {"max_tokens", 60}});
  std::printf("%s\n", answer.dump().c_str());

  (*node)->leave();
  node->reset();
  std::filesystem::remove_all(folder);
  return progress["phase"] == "finished" && progress.value("loss", 9.0) < 1.5 ? 0 : 1;
}
