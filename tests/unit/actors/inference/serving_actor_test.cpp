// The serving actor, with its calls caught: names, versions, what is remembered, moves between devices, and
// what it gives to those who take a copy.
#include "actors/inference/serving_actor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <future>

#include "actors/inference/copy_codec.hpp"
#include "runtime/security/rights.hpp"
#include "tests/unit/actors/inference/served_fixture.hpp"

namespace gpunode::inference {
namespace {

class ServedByActor : public Served {
 protected:
  ServedByActor() {
    cluster_.write({});
    begin();
    calls_->send(serving_,
                 Command{"serve", R"({"path": "/file", "name": "letters"})", [](std::string) {}});
    calls_->receive([&](const Publish& publish) { ask_ = publish.handler; },
                    caf::after(20s) >> [] { FAIL() << "the model is not published"; });
  }
  void begin() {
    serving_ = spawn_serving(system_, {[this]() -> Result<compute::NodeDevice*> {
                                         const auto ready = devices_.ready();
                                         if (!ready) return ready.error();
                                         return ready->front();
                                       },
                                       &disk_, &clock_, &cluster_, "/checkpoints", others(),
                                       others(), others(), &metrics_, "/served", "/models"});
    CallHandler parts;
    for (CallHandler* handler : {&copies_, &parts, &pieces_})
      calls_->receive([&](const Publish& publish) { *handler = publish.handler; },
                      caf::after(20s) >> [] { FAIL() << "what other nodes ask is not published"; });
  }
  ~ServedByActor() override {
    calls_->send(serving_, Shutdown{});
    calls_->wait_for(serving_);
  }
  std::string told(const std::string& command, const std::string& arguments) {
    auto promise = std::make_shared<std::promise<std::string>>();
    auto answer = promise->get_future();
    calls_->send(serving_, Command{command, arguments, [promise](std::string text) {
                                     promise->set_value(std::move(text));
                                   }});
    if (answer.wait_for(20s) != std::future_status::ready) return "nothing was told";
    return answer.get();
  }
  // Whom it calls, and asks of jobs, and tells what is served.
  caf::actor others() { return caf::actor_cast<caf::actor>(calls_.ptr()); }
  Result<GenerateAnswer> answer() {
    std::promise<Result<SharedBytes>> promise;
    const GenerateRequest request{.prompt = "a", .max_tokens = kTokens, .temperature = 0};
    ask_({}, SharedBytes::from(encode(request)),
         [&](Result<SharedBytes> bytes) { promise.set_value(std::move(bytes)); });
    auto future = promise.get_future();
    if (future.wait_for(20s) != std::future_status::ready)
      return Error{ErrorCode::timeout, "nothing was told"};
    const auto bytes = future.get();
    if (!bytes) return bytes.error();
    const auto message = decode_generate(bytes->view);
    if (!message) return message.error();
    return std::get<GenerateAnswer>(*message);
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor calls_{system_};
  ClusterState cluster_;
  telemetry::Registry metrics_;
  caf::actor serving_;
  CallHandler pieces_, copies_, ask_;
};

TEST_F(ServedByActor, tells_the_directory_of_what_it_serves) {
  calls_->receive(
      [](const SetEntry& entry) {
        EXPECT_EQ(entry.key, "model/letters");
        const std::string told(as_text(*entry.value));
        EXPECT_THAT(told, ::testing::HasSubstr("\"digest\":\""));
        EXPECT_THAT(told, ::testing::Not(::testing::HasSubstr("\"job\"")));
      },
      caf::after(20s) >> [] { FAIL() << "nothing is told"; });
}

TEST_F(ServedByActor, serves_the_job_that_the_board_says_is_meant) {
  std::promise<std::string> promise;
  calls_->send(serving_, Command{"serve", R"({"job": "dup", "name": "m"})",
                                 [&](std::string text) { promise.set_value(std::move(text)); }});
  calls_->receive(
      [](const Command& question) {
        EXPECT_EQ(question.name, "job.find");
        EXPECT_THAT(question.arguments, ::testing::HasSubstr("dup"));
        question.answer(
            R"({"ok": true, "name": "dup", "job": "00112233445566778899aabbccddeeff"})");
      },
      caf::after(20s) >> [] { FAIL() << "nobody is asked"; });
  auto answer = promise.get_future();
  ASSERT_EQ(answer.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(answer.get(), ::testing::HasSubstr("job 00112233: no durable checkpoint"));
}

TEST_F(ServedByActor, takes_names_that_fit_into_tables_and_keys) {
  for (const char* name : {"bad name", "bad/name", "bad\\tname"})
    EXPECT_THAT(told("serve", std::string(R"({"path": "/file", "name": ")") + name + "\"}"),
                ::testing::HasSubstr("no spaces, slashes, '@' or control characters"))
        << name;
  EXPECT_THAT(told("serve", R"({"path": "/file", "name": "letters"})"),
              ::testing::HasSubstr("--replace"));
}

TEST_F(ServedByActor, says_who_serves_other_weights_under_the_name) {
  ClusterSnapshot known;
  NodeInfo other;
  other.id.value[0] = std::byte{2};
  other.name = "b";
  other.rights = security::kRightServe;
  known.nodes = {other};
  known.entries = {
      {other.id, "model/m",
       to_bytes(as_bytes(R"({"version": 1, "digest": ")" + std::string(64, '0') + "\"}"))}};
  cluster_.write(known);
  EXPECT_THAT(told("serve", R"({"path": "/file", "name": "m"})"),
              ::testing::AllOf(::testing::HasSubstr(R"("differs_from":["b"])"),
                               ::testing::HasSubstr(R"("version":2)")));
}

TEST_F(ServedByActor, forgets_on_order_what_could_not_be_served_again) {
  EXPECT_TRUE(disk_.remove("/file"));
  calls_->send(serving_, Shutdown{});
  calls_->wait_for(serving_);
  begin();
  const auto kept = [&] { return std::string(as_text(*disk_.read("/served", 1 << 20))); };
  EXPECT_THAT(kept(), ::testing::HasSubstr("letters"));
  std::string answer;
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (answer.find("\"ok\":true") == std::string::npos &&
         std::chrono::steady_clock::now() < until)
    answer = told("unserve", R"({"model": "letters"})");  // it is being looked for as yet
  EXPECT_THAT(answer, ::testing::HasSubstr("\"ok\":true"));
  EXPECT_THAT(kept(), ::testing::Not(::testing::HasSubstr("letters")));
  EXPECT_THAT(told("unserve", R"({"model": "letters"})"),
              ::testing::HasSubstr("no model named 'letters'"));
}

// From the memory of a device too, piece by piece, and from where it moved to.
TEST_F(ServedByActor, gives_its_bytes_to_who_asks_by_its_digest) {
  const auto ask = [&](const CopyAsk& question) {
    std::promise<Result<SharedBytes>> promise;
    copies_({}, SharedBytes::from(encode_copy(question)),
            [&](Result<SharedBytes> bytes) { promise.set_value(std::move(bytes)); });
    return promise.get_future().get();
  };
  const auto digest = storage::Sha256::parse(answer()->model_digest);
  ASSERT_TRUE(digest);
  for (const bool moved : {false, true}) {
    if (moved) {
      ASSERT_TRUE(devices_.drain("cuda:0"));
      ASSERT_TRUE(answer());
    }
    const auto told = ask({*digest, {}});
    ASSERT_TRUE(told) << told.error().message();
    const auto message = decode_copy(told->view);
    ASSERT_TRUE(message);
    const auto& content = std::get<checkpoint::ModelContent>(*message);
    EXPECT_EQ(content.digest(), *digest);
    ASSERT_GE(content.pieces.size(), 1u);
    for (std::size_t piece = 0; piece < content.pieces.size(); ++piece) {
      const auto bytes = ask({*digest, piece});
      ASSERT_TRUE(bytes) << bytes.error().message();
      EXPECT_EQ(storage::sha256_of(bytes->view), content.pieces[piece]) << piece;
    }
    EXPECT_EQ(ask({*digest, content.pieces.size()}).error().code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ(ask({storage::sha256_of({}), {}}).error().code, ErrorCode::not_found);
}

TEST_F(ServedByActor, moves_from_a_device_that_is_drained_and_answers_alike) {
  const auto before = answer();
  ASSERT_TRUE(before) << before.error().message();
  EXPECT_EQ(device(0).status().users, Users{"model letters"});
  ASSERT_TRUE(devices_.drain("cuda:0"));
  const auto after = answer();
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->text, before->text);
  EXPECT_EQ(before->version, 1u);
  EXPECT_EQ(after->version, 1u);
  EXPECT_EQ(device(0).status().users, Users{}) << "it is free";
  EXPECT_EQ(device(1).status().users, Users{"model letters"});
}

TEST_F(ServedByActor, moves_with_the_weights_of_the_device_where_its_files_are_gone) {
  const auto before = answer();
  ASSERT_TRUE(before) << before.error().message();
  ASSERT_TRUE(disk_.remove("/file"));
  ASSERT_TRUE(devices_.drain("cuda:0"));
  const auto after = answer();
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->text, before->text);
  EXPECT_EQ(after->model_digest, before->model_digest);
  EXPECT_EQ(device(0).status().users, Users{}) << "it is free";
  EXPECT_EQ(device(1).status().users, Users{"model letters"});
  // And back, from there.
  ASSERT_TRUE(devices_.resume("cuda:0"));
  ASSERT_TRUE(devices_.drain("cuda:1"));
  EXPECT_EQ(answer()->text, before->text);
  EXPECT_EQ(device(0).status().users, Users{"model letters"});
}

TEST_F(ServedByActor, moves_with_its_own_weights_where_its_files_hold_others_now) {
  const auto before = answer();
  ASSERT_TRUE(before) << before.error().message();
  ASSERT_TRUE(disk_.remove("/file"));
  store(4);
  ASSERT_TRUE(devices_.drain("cuda:0"));
  const auto after = answer();
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->model_digest, before->model_digest);
  EXPECT_EQ(after->text, before->text);
  EXPECT_EQ(device(1).status().users, Users{"model letters"});
}
}  // namespace
}  // namespace gpunode::inference
