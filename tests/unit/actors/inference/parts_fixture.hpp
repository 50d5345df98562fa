// A model in parts, as if each were on a node of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "actors/inference/part_chain.hpp"
#include "actors/inference/served_part.hpp"
#include "tests/unit/actors/inference/served_fixture.hpp"

namespace gpunode::inference {

using ::testing::HasSubstr;

inline NodeId node_id(std::uint8_t number) {
  NodeId id;
  id.value[0] = std::byte{number};
  return id;
}

// Nodes with parts, which the head reaches by calls of functions.
struct Nodes {
  std::map<NodeId, std::unique_ptr<ServedPart>> parts;
  std::map<NodeId, Error> failing;  // calls to them
  std::function<void(PartMessage&)> change = [](PartMessage&) {};
  std::function<void()> on_ask = [] {};
  std::vector<NodeId> asked;
  Duration longest{};
  NodeId head = node_id(99);

  PartAccess access() {
    return {.holders =
                [this](const PartName& name) {
                  std::vector<NodeId> found;
                  for (const auto& [id, part] : parts)
                    if (part->name() == name) found.push_back(id);
                  return found;
                },
            .ask = [this](const NodeId& node, const SharedBytes& request,
                          Duration timeout) { return ask(node, request, timeout); },
            .tell = [this](const NodeId& node,
                           const SharedBytes& message) { (void)ask(node, message, 1s); },
            .name_of =
                [](const NodeId& node) {
                  return "node" + std::to_string(static_cast<int>(node.value[0]));
                }};
  }
  Result<SharedBytes> ask(const NodeId& node, const SharedBytes& request, Duration timeout) {
    asked.push_back(node);
    longest = timeout;
    on_ask();
    if (const auto failed = failing.find(node); failed != failing.end()) return failed->second;
    const auto part = parts.find(node);
    if (part == parts.end()) return Error{ErrorCode::peer_lost, "gone"};
    const auto message = decode_part(request.view);
    if (!message) return message.error();
    auto answer = part->second->answer(*message, head);
    if (!answer) return answer.error();
    change(*answer);
    return SharedBytes::from(encode_part(*answer));
  }
};

class InParts : public Served {
 protected:
  InParts() { store_large(); }
  void store_large() {
    checkpoint::StoredModel stored;
    stored.model = std::move(*model::make_model(
        "gpt", {{"layers", "4"}, {"heads", "2"}, {"channels", "16"}, {"context", "48"}}));
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(3, stored.weights);
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/large"));
  }
  ServedModel::Options part_options(std::size_t number, std::size_t of) {
    ServedModel::Options options = on(device(0));
    options.path = "/large";
    options.part = checkpoint::PartChoice{number, of};
    options.parts = nodes_.access();
    options.name = "big";
    return options;
  }
  void serve(std::uint8_t node, std::size_t number, std::size_t of = 3) {
    auto part = ServedPart::load(part_options(number, of));
    ASSERT_TRUE(part) << part.error().message();
    nodes_.parts[node_id(node)] = *std::move(part);
  }
  void serve_head(std::size_t of = 3) {
    auto head = ServedModel::load(part_options(0, of));
    ASSERT_TRUE(head) << head.error().message();
    head_ = *std::move(head);
  }
  void serve_all() {
    serve(2, 1);
    serve(3, 2);
    serve_head();
  }
  std::unique_ptr<ServedModel> whole() {
    ServedModel::Options options = on(device(0));
    options.path = "/large";
    return *ServedModel::load(options);
  }
  static GenerateRequest request(int number) {
    return {.prompt = std::string(static_cast<std::size_t>(1 + 13 * number), 'x') + " to be",
            .max_tokens = 60,  // longer than the model reads
            .temperature = number % 2 == 0 ? 0 : 1.2,
            .seed = static_cast<std::uint64_t>(number)};
  }
  std::string said(ServedModel& model, int number) {
    const auto told = model.generate(request(number), Time::max());
    EXPECT_TRUE(told) << told.error().message();
    return told ? told->text : "";
  }
  Error failure(int number = 0) {
    const auto told = head_->generate(request(number), Time::max());
    EXPECT_FALSE(told);
    return told ? Error{} : told.error();
  }

  Nodes nodes_;
  std::unique_ptr<ServedModel> head_;
};

}  // namespace gpunode::inference
