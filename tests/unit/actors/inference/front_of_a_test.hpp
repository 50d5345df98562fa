// A front with a model that the test is, and who asks it over a socket.
#pragma once

#include <gtest/gtest.h>

#include <atomic>

#include "actors/inference/http_front.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::inference {

class HttpFront : public ::testing::Test {
 protected:
  HttpFront() { open({}); }
  void open(HttpFrontOptions options) {
    front_.reset();
    if (options.listen.host.empty()) options.listen = {"127.0.0.1", 0};
    options.generate = [this](GenerateText order) { model_(std::move(order)); };
    options.infer = [this](const InferOrder& order) { infer_(order); };
    options.is_live = [this] { return live_; };
    options.is_asleep = [this](const std::string&) { return asleep_.load(); };
    options.readiness = [this] { return ready_; };
    options.models = [] { return std::vector<std::string>{"small"}; };
    options.clock = &clock_;
    options.metrics = [] { return "figures 1\n"; };
    auto front = open_http_front(std::move(options));
    EXPECT_TRUE(front) << front.error().message();
    front_ = *std::move(front);
  }
  Descriptor dial() { return gpunode::testing::dial(front_->place().port); }
  // With the Host that its head names, or else this machine's.
  static std::string request(const std::string& head, const std::string& body) {
    const bool named = head.find("Host: ") != std::string::npos;
    return head + (named ? "" : "Host: 127.0.0.1\r\n") +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::string ask(const std::string& head, const std::string& body = "") {
    const Descriptor socket = dial();
    gpunode::testing::say(socket, request(head + "Connection: close\r\n", body));
    return gpunode::testing::hear(socket);
  }
  static constexpr const char* kPost =
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n";
  std::string complete(const std::string& fields = "", const std::string& head = "") {
    return ask(kPost + head, R"({"model": "small", "prompt": "Once")" + fields + "}");
  }
  static GenerateAnswer text(const std::string& text) {
    GenerateAnswer answer;
    answer.text = text;
    answer.tokens = 2;
    answer.finish = "length";
    return answer;
  }

  SystemClock clock_;
  std::function<void(GenerateText)> model_ = [](const GenerateText& order) {
    order.done(text(order.request.prompt + " upon"));
  };
  // A model of rows that knows one class.
  std::function<void(const InferOrder&)> infer_ = [](const InferOrder& order) {
    if (std::holds_alternative<InferDescribe>(order.request))
      return order.done(InferMessage(InferDescription{
          "gpunode_classifier", {{"features", TensorKind::fp32, {-1, 2}}}, {}, "", 0}));
    order.done(
        InferMessage(InferAnswer{{{"class", TensorKind::int64, {1}, Bytes(8)}}, "digest", 1, 0.5}));
  };
  bool live_ = true;
  std::atomic<bool> asleep_ = false;
  Result<void> ready_ = {};
  std::unique_ptr<http::Server> front_;
};

}  // namespace gpunode::inference
