// The smallest node inside a program: start it, publish a function under a name, call it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "actors/node/node.hpp"

int main() {
  // A node keeps its keys and jobs in a directory that only its owner can read.
  char scratch[] = "/tmp/gpunode-example-XXXXXX";
  if (!mkdtemp(scratch)) return 1;

  gpunode::NodeConfig config;
  config.state_directory = std::string(scratch) + "/state";
  config.listen = "127.0.0.1:0";  // free ports; a real node names one
  auto node = gpunode::Node::start(config);
  if (!node) {
    std::fprintf(stderr, "%s\n", node.error().message().c_str());
    return 1;
  }

  // Every node of the cluster can call this from now on.
  auto shout = [](std::string_view request) -> gpunode::Result<std::string> {
    std::string text(request);
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
  };
  if (auto published = (*node)->publish("shout", shout); !published) {
    std::fprintf(stderr, "%s\n", published.error().message().c_str());
    return 1;
  }
  auto answer = (*node)->call("shout", "hello", std::chrono::seconds(10));
  std::printf("%s: %s\n", (*node)->name().c_str(),
              answer ? answer->c_str() : answer.error().message().c_str());

  (*node)->leave();
  node->reset();
  std::filesystem::remove_all(scratch);
  return answer && *answer == "HELLO" ? 0 : 1;
}
