// A job from inside a program: a small GPT learns a text, and the job proves what it was fed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "actors/node/node_json.hpp"

namespace {

constexpr const char* kJob = R"(
name = "shells"
[data]
path = "text.txt"
[model]
kind = "gpt"
layers = 2
heads = 2
channels = 32
context = 32
[train]
steps = 60
batch = 8
slices = 4
warmup_steps = 10
learning_rate = 3e-3
)";

using nlohmann::json;

}  // namespace

int main() {
  char scratch[] = "/tmp/gpunode-example-XXXXXX";
  if (!mkdtemp(scratch)) return 1;
  const std::string folder = scratch;
  std::ofstream text(folder + "/text.txt");
  for (int i = 0; i < 400; ++i)
    text << "She sells sea shells by the sea shore, said " << i << ".\n";
  text.close();

  gpunode::NodeConfig config;
  config.state_directory = folder + "/state";
  config.listen = "127.0.0.1:0";
  auto node = gpunode::Node::start(config);
  if (!node) {
    std::fprintf(stderr, "%s\n", node.error().message().c_str());
    return 1;
  }

  const json job = *gpunode::ask(**node, "train", {{"job_file", kJob}, {"directory", folder}});
  json progress;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    progress = *gpunode::ask(**node, "job.progress", {{"job", job.at("job")}});
    std::printf("step %d of %d, loss %.2f\n", progress.value("step", 0), progress.value("steps", 0),
                progress.value("loss", 0.0));
  } while (progress.value("phase", "") != "finished" && progress.value("phase", "") != "failed");

  const json report = *gpunode::ask(**node, "job.show", {{"job", job.at("job")}});
  std::printf("%s; fed as recomputed from the text: %s\n", progress.value("phase", "").c_str(),
              report["proof"].value("equal_to_data", false) ? "yes" : "no");
  (*node)->leave();
  node->reset();
  std::filesystem::remove_all(scratch);
  return progress.value("phase", "") == "finished" && progress.value("loss", 9.0) < 4.0 &&
                 report["proof"].value("equal_to_data", false)
             ? 0
             : 1;
}
