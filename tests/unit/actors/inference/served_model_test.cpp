// A served model and its device: who sees it there, what counts as a hang, and what a drained or lost
// device does to it; and how it reads and writes by its folder's texts.
#include "actors/inference/served_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/actors/inference/served_fixture.hpp"

namespace gpunode::inference {
namespace {

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

TEST_F(Served, uses_its_device_as_long_as_it_lives) {
  auto model = load();
  EXPECT_EQ(device(0).status().users, Users{"model letters"});
  model.reset();
  EXPECT_EQ(device(0).status().users, Users{});
}

TEST_F(Served, answers_the_same_with_a_draft_which_goes_with_it_and_moves_with_it) {
  const auto expected = ask(*load());
  store(4);
  ASSERT_TRUE(disk_.rename("/file", "/draft"));
  store(3);
  ServedModel::Options options = on(device(0));
  options.draft = "/draft";
  auto model = ServedModel::load(options);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_THAT((*model)->facts().draft, ::testing::SizeIs(64));
  EXPECT_NE((*model)->facts().draft, (*model)->facts().digest);
  EXPECT_EQ(device(0).status().users, (Users{"model letters", "model letters's draft"}));
  EXPECT_EQ(ask(**model)->text, expected->text);
  EXPECT_GT((*model)->texts()->draft()->counts().guessed, 0u);
  store(5);  // its files are not what it was loaded from any more
  options.device = &device(1);
  auto moved = ServedModel::move(**model, options);
  ASSERT_TRUE(moved) << moved.error().message();
  EXPECT_EQ((*moved)->facts().draft, (*model)->facts().draft);
  model->reset();
  EXPECT_EQ(device(0).status().users, Users{});
  EXPECT_EQ(device(1).status().users, (Users{"model letters", "model letters's draft"}));
  EXPECT_EQ(ask(**moved)->text, expected->text);
  EXPECT_GT((*moved)->texts()->draft()->counts().guessed, 0u);
}

TEST_F(Served, refuses_a_draft_that_is_not_there_or_has_other_tokens) {
  ServedModel::Options options = on(device(0));
  options.draft = "/nowhere";
  const auto nothing = ServedModel::load(options);
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message(), ::testing::HasSubstr("the draft"));
  checkpoint::StoredModel other;
  other.model = std::move(*model::make_model("gpt", {{"layers", "1"},
                                                     {"heads", "1"},
                                                     {"channels", "4"},
                                                     {"context", "8"},
                                                     {"vocabulary", "100"}}));
  other.weights.resize(other.model->parameter_count());
  ASSERT_TRUE(checkpoint::save_model(disk_, other, "/other"));
  options.draft = "/other";
  const auto refused = ServedModel::load(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("other tokens"));
  EXPECT_EQ(device(0).status().users, Users{});
}

TEST_F(Served, goes_without_a_draft_that_cannot_be_had_where_it_may) {
  const auto expected = ask(*load());
  ServedModel::Options options = on(device(0));
  options.draft = "/nowhere";
  options.draft_may_lack = true;
  auto model = ServedModel::load(options);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->facts().draft, "");
  EXPECT_EQ((*model)->texts()->draft(), nullptr);
  EXPECT_EQ(ask(**model)->text, expected->text);
  options.device = &device(1);
  auto moved = ServedModel::move(**model, options);
  ASSERT_TRUE(moved) << moved.error().message();
  EXPECT_EQ(ask(**moved)->text, expected->text);
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

TEST_F(Served, gives_its_image_piece_by_piece) {
  const auto model = load();
  const ModelBytes bytes = model->bytes();
  EXPECT_EQ(bytes.content().digest().text(), model->facts().digest);
  ASSERT_EQ(bytes.content().image_pieces(), 1u);
  const auto piece = model->image_piece(0);
  ASSERT_TRUE(piece) << piece.error().message();
  EXPECT_EQ(to_bytes(piece->view), to_bytes(bytes.image.view));
  EXPECT_EQ(storage::sha256_of(piece->view), bytes.content().pieces[0]);
  EXPECT_EQ(model->image_piece(1).error().code, ErrorCode::invalid_argument);
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

TEST_F(ServedFolder, takes_a_draft_with_the_very_same_tokenizer_alone) {
  const std::string others = R"({"decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type":
      "ByteLevel"}, "model": {"type": "BPE", "vocab": {"b": 0, "a": 1, "Ġc": 2, "Ã": 3}, "merges": []}})";
  for (const std::string& tokenizer : {others, std::string(), std::string(kTokenizer)}) {
    store_folder(2);
    if (!tokenizer.empty()) write("tokenizer.json", tokenizer);
    ASSERT_TRUE(disk_.rename("/hub", "/draft"));
    store_folder(2);
    write("tokenizer.json", kTokenizer);
    auto options = on(device(0));
    options.path = "/hub";
    options.draft = "/draft";
    const auto model = ServedModel::load(options);
    EXPECT_EQ(model.has_value(), tokenizer == kTokenizer) << tokenizer;
    if (!model) {
      EXPECT_EQ(model.error().code, ErrorCode::invalid_argument);
      EXPECT_THAT(model.error().message(), ::testing::HasSubstr("the very same tokenizer.json"));
    }
    ASSERT_TRUE(disk_.remove("/draft"));
    ASSERT_TRUE(disk_.remove("/hub"));
  }
}

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
}  // namespace
}  // namespace gpunode::inference
