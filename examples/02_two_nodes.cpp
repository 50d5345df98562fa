// Two nodes: the second joins the first with a token and calls what only the first offers. Then it
// offers that too; when the first stops, calls go on being answered.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/node/node.hpp"

namespace {

using gpunode::Node;
using gpunode::NodeConfig;
using gpunode::Result;

std::unique_ptr<Node> start(NodeConfig config) {
  auto node = Node::start(std::move(config));
  if (node) return std::move(*node);
  std::fprintf(stderr, "%s\n", node.error().message().c_str());
  std::exit(1);
}

void offer(Node& node) {
  auto who = [name = node.name()](std::string_view) -> Result<std::string> { return name; };
  if (node.publish("who", who)) return;
  std::fprintf(stderr, "the name was refused\n");
  std::exit(1);
}

}  // namespace

int main() {
  char scratch[] = "/tmp/gpunode-example-XXXXXX";
  if (!mkdtemp(scratch)) return 1;

  NodeConfig config;
  config.name = "ada";
  config.state_directory = std::string(scratch) + "/ada";
  config.listen = "127.0.0.1:0";
  auto ada = start(config);

  // A token admits one node, only for a while, and says what it may: bob offers something, too.
  auto token = nlohmann::json::parse(ada->command("token.create", R"({"roles": "serve, call"})"));

  config.name = "bob";
  config.state_directory = std::string(scratch) + "/bob";
  config.join = ada->join_endpoints().at(0);
  config.token = token.value("token", "");
  auto bob = start(config);

  offer(*ada);
  auto first = bob->call("who", "", std::chrono::seconds(10));
  std::printf("answered by %s\n", first ? first->c_str() : first.error().message().c_str());

  offer(*bob);
  ada->stop();  // as a crash would
  // To ask twice does no harm, so another node may be asked where the first is lost.
  auto second = bob->call("who", "", std::chrono::seconds(10), Node::Retry::where_lost);
  std::printf("answered by %s\n", second ? second->c_str() : second.error().message().c_str());

  bob->leave();
  bob.reset();
  ada.reset();
  std::filesystem::remove_all(scratch);
  return first && *first == "ada" && second && *second == "bob" ? 0 : 1;
}
