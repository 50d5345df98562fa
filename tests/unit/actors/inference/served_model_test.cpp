// A served model and its device: who sees it there, what counts as a hang, and what a drained or lost
// device does to it. Through the actor where it is the actor's affair.
#include "actors/inference/served_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <future>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/serving_actor.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using Users = std::set<std::string>;

// Tells the device's watcher of the time, `per_call` later each time that it is asked for.
class WatchedClock final : public Clock {
 public:
  Time now() const override {
    for (int second = 0; device && second < seconds_per_call; ++second)
      device->look_for_hangs(seen += 1s, 3s);
    return seen;
  }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  compute::NodeDevice* device = nullptr;
  int seconds_per_call = 0;
  mutable Time seen = Time{} + 1h;
};

// A CPU whose memory gives back something else than was written to it, when it is told to.
class SpoiltBackend final : public ops::Backend {
 public:
  bool spoils = false;
  const tensor::Device& device() const override { return below_->device(); }
  const ops::Capabilities& capabilities() const override { return below_->capabilities(); }
  const ops::Operations& operations() const override { return below_->operations(); }
  std::shared_ptr<tensor::Memory> memory() const override { return below_->memory(); }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override { return below_->open_stream(); }
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    return below_->upload(stream, from, to);
  }
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    auto done = below_->download(stream, from, to);
    if (spoils) to.back() ^= std::byte{1};
    return done;
  }
  Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                    std::size_t bytes) override {
    return below_->copy(stream, from, to, bytes);
  }
  Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) override {
    return below_->clear(stream, to, bytes);
  }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) override {
    return below_->record(stream);
  }
  Result<void> wait(tensor::Stream& stream, const tensor::Event& event,
                    tensor::WaitSite site) override {
    return below_->wait(stream, event, site);
  }

 private:
  std::unique_ptr<ops::Backend> below_ = cpu::open_backend();
};

class Served : public ::testing::Test {
 protected:
  Served() {
    store(3);
    devices_.add("cuda:0", cpu::open_backend());
    devices_.add("cuda:1", cpu::open_backend());
  }
  void store(std::uint64_t seed) {
    checkpoint::StoredModel stored;
    stored.model = std::move(*model::make_model(
        "gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "4"}, {"context", "8"}}));
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(seed, stored.weights);
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/file"));
  }
  compute::NodeDevice& device(std::size_t at) { return *devices_.devices()[at]; }
  ServedModel::Options on(compute::NodeDevice& device) {
    return {.device = &device,
            .user = "model letters",
            .files = &disk_,
            .clock = &clock_,
            .path = "/file"};
  }
  std::unique_ptr<ServedModel> load() {
    auto served = ServedModel::load(on(device(0)));
    EXPECT_TRUE(served) << served.error().message();
    clock_.device = &device(0);
    return std::move(*served);
  }
  static constexpr std::uint32_t kTokens = 6;
  Result<GenerateAnswer> ask(ServedModel& model) {
    return model.generate({.prompt = "a", .max_tokens = kTokens, .temperature = 0}, Time::max());
  }

  gpunode::testing::MemoryFileSystem disk_;
  WatchedClock clock_;
  compute::DeviceRoster devices_{cpu::open_backend()};
};

TEST_F(Served, uses_its_device_as_long_as_it_lives) {
  auto model = load();
  EXPECT_EQ(device(0).status().users, Users{"model letters"});
  model.reset();
  EXPECT_EQ(device(0).status().users, Users{});
}

TEST_F(Served, gets_on_with_each_token_and_so_never_hangs_over_a_long_text) {
  auto model = load();
  clock_.seconds_per_call = 1;  // two seconds a token are fine, six tokens more than the bound
  const auto answer = ask(*model);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->tokens, kTokens);
  EXPECT_EQ(device(0).condition(), compute::DeviceCondition::ready);
}

TEST_F(Served, loses_a_device_that_does_not_get_on_and_answers_no_more) {
  auto model = load();
  clock_.seconds_per_call = 10;
  (void)ask(*model);
  EXPECT_EQ(device(0).condition(), compute::DeviceCondition::lost);
  EXPECT_THAT(device(0).status().reason, ::testing::HasSubstr("the work of model letters"));
  const auto refused = ask(*model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::device_lost);
  EXPECT_THAT(refused.error().detail, ::testing::HasSubstr("cuda:0 is lost: it has not got on"));
}

TEST_F(Served, does_not_move_with_weights_that_its_device_has_spoilt) {
  SpoiltBackend backend;
  compute::NodeDevice sick("cuda:2", backend);
  const auto model = ServedModel::load(on(sick));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_TRUE(disk_.remove("/file"));
  backend.spoils = true;
  const auto refused = ServedModel::move(**model, on(device(0)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::corrupted);
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("the memory of cuda:2 does not"));
  backend.spoils = false;
  EXPECT_TRUE(ask(**model)) << "it stays as it was";
  const auto moved = ServedModel::move(**model, on(device(0)));
  ASSERT_TRUE(moved) << moved.error().message();
  EXPECT_EQ(ask(**moved)->text, ask(**model)->text);
}

// A model of transformers' form over four tokens, whose next one is always the same.
class ServedFolder : public Served {
 protected:
  void store_folder(std::size_t next, const std::string& vocabulary = "4",
                    const std::string& ends = "null") {
    checkpoint::StoredModel stored;
    stored.model = *model::make_model("gpt", {{"layers", "1"},
                                              {"heads", "1"},
                                              {"channels", "4"},
                                              {"context", "8"},
                                              {"vocabulary", vocabulary}});
    // Only the bias behind the last norm is there, and only one token's row goes along with it.
    stored.weights.resize(stored.model->parameter_count());
    std::size_t first = 0;
    for (const model::ParameterSpec& parameter : stored.model->parameters()) {
      if (parameter.name == "norm.bias") stored.weights[first] = 1;
      if (parameter.name == "token_table") stored.weights[first + 4 * next] = 1;
      first += parameter.element_count();
    }
    EXPECT_TRUE(checkpoint::save_for_transformers(disk_, stored, "/hub"));
    write("generation_config.json", "{\"eos_token_id\": " + ends + "}");
  }
  void write(const char* name, const std::string& text) {
    EXPECT_TRUE(disk_.write_atomic(storage::Path("/hub") / name, {as_bytes(text)}));
  }
  Result<std::unique_ptr<ServedModel>> load_folder() {
    auto options = on(device(0));
    options.path = "/hub";
    return ServedModel::load(options);
  }
  static constexpr const char* kTokenizer =
      R"({"decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel"}, "model":
          {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġc": 2, "Ã": 3}, "merges": []}})";
};

TEST_F(ServedFolder, reads_and_writes_the_tokens_of_its_tokenizer) {
  store_folder(2);
  write("tokenizer.json", kTokenizer);
  const auto model = load_folder();
  ASSERT_TRUE(model) << model.error().message();
  const auto answer = ask(**model);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->text, " c c c c c c");
  EXPECT_EQ(answer->tokens, kTokens);
  EXPECT_EQ(answer->finish, "length");
}

TEST_F(ServedFolder, reads_chats_as_its_template_says) {
  store_folder(2);
  write("tokenizer.json", kTokenizer);
  GenerateRequest chat{.max_tokens = 0, .temperature = 0};
  chat.chat = R"({"messages": [{"role": "user", "content": "ab"}]})";
  const auto answer_of = [&] { return (*load_folder())->generate(chat, Time::max()); };
  EXPECT_EQ(answer_of().error().code, ErrorCode::unsupported) << "it has none";
  write("tokenizer_config.json", R"({"bos_token": {"content": "b"},
                                     "chat_template": "{{ bos_token + messages[0].content }}"})");
  const auto answer = answer_of();
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->prompt_tokens, 3u) << "bab";
  EXPECT_EQ(answer->tokens, 5u) << "what fits beside them into a context of 8";
  write("chat_template.jinja", "{% for m in messages %}{{ m.content + m.content }}{% endfor %}");
  EXPECT_EQ(answer_of()->prompt_tokens, 4u) << "a file of its own goes before";
  write("chat_template.jinja", "{% include 'other' %}");
  EXPECT_EQ(answer_of().error().code, ErrorCode::unsupported);
  EXPECT_TRUE(ask(**load_folder())) << "and texts go on";
}

TEST_F(ServedFolder, gives_no_halves_of_characters) {
  store_folder(3);
  write("tokenizer.json", kTokenizer);
  EXPECT_EQ(ask(**load_folder())->text, "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd");
}

TEST_F(ServedFolder, ends_a_text_where_the_model_does) {
  for (const char* ends : {"2", "[1, 2]"}) {
    store_folder(2, "4", ends);
    write("tokenizer.json", kTokenizer);
    const auto answer = ask(**load_folder());
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(answer->text, "");
    EXPECT_EQ(answer->finish, "stop");
    EXPECT_EQ(answer->tokens, 1u);
  }
}

TEST_F(ServedFolder, ends_a_text_before_a_sequence_that_stops_it) {
  store_folder(2);
  write("tokenizer.json", kTokenizer);
  const auto model = load_folder();
  const auto answer = (*model)->generate(
      {.prompt = "ab", .max_tokens = 5, .temperature = 0, .stop = {"c c"}}, Time::max());
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->text, " ");
  EXPECT_EQ(answer->finish, "stop");
  EXPECT_EQ(answer->tokens, 2u);
  EXPECT_EQ(answer->prompt_tokens, 2u);
}

TEST_F(ServedFolder, without_a_tokenizer_is_of_bytes_or_refused) {
  store_folder(2, "256");
  EXPECT_EQ(ask(**load_folder())->text, "\2\2\2\2\2\2");
  store_folder(2, "300");
  const auto refused = load_folder();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().detail, ::testing::HasSubstr("tokenizer.json"));
}

TEST_F(ServedFolder, refuses_the_tokenizer_of_another_model) {
  store_folder(2, "3");
  write("tokenizer.json", kTokenizer);
  const auto refused = load_folder();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().detail, ::testing::HasSubstr("not of the same model"));
}

// The serving actor, with its calls caught.
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
                                       others(), others(), &metrics_, "/served"});
    calls_->receive([&](const Publish& publish) { pieces_ = publish.handler; },
                    caf::after(20s) >> [] { FAIL() << "nobody takes pieces"; });
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
  CallHandler pieces_, ask_;
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
                ::testing::HasSubstr("no spaces, slashes or control characters"))
        << name;
  EXPECT_THAT(told("serve", R"({"path": "/file", "name": "letters"})"),
              ::testing::HasSubstr("`gpunode unserve letters` first"));
}

TEST_F(ServedByActor, says_who_serves_other_weights_under_the_name) {
  ClusterSnapshot known;
  NodeInfo other;
  other.id.value[0] = std::byte{2};
  other.name = "b";
  known.nodes = {other};
  known.entries = {{other.id, "model/m", to_bytes(as_bytes(R"({"digest": "00"})"))}};
  cluster_.write(known);
  EXPECT_THAT(told("serve", R"({"path": "/file", "name": "m"})"),
              ::testing::HasSubstr(R"("differs_from":["b"])"));
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

TEST_F(ServedByActor, moves_from_a_device_that_is_drained_and_answers_alike) {
  const auto before = answer();
  ASSERT_TRUE(before) << before.error().message();
  EXPECT_EQ(device(0).status().users, Users{"model letters"});
  ASSERT_TRUE(devices_.drain("cuda:0"));
  const auto after = answer();
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->text, before->text);
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
