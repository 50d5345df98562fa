// A model taken from nodes of which some lie, refuse or say nothing: whole as long as one good one is there,
// and a reason where none is.
#include "actors/inference/detail/model_copy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/inference/copy_codec.hpp"
#include "actors/messages.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

using checkpoint::ModelContent;
using ::testing::HasSubstr;

enum class Manner { good, wrong_bytes, short_bytes, wrong_content, refuses, leaves };

class ModelCopy : public ::testing::Test {
 protected:
  ModelCopy() {
    const auto model = std::move(*model::make_model("gpt", {{"layers", "1"},
                                                            {"heads", "1"},
                                                            {"channels", "256"},
                                                            {"context", "8"},
                                                            {"vocabulary", "9000"}}));
    checkpoint::StoredModel stored;
    stored.weights.resize(model->parameter_count());
    model->initialise(3, stored.weights);
    image_ = to_bytes(std::as_bytes(std::span(stored.weights)));
    texts_ = {{"config.json", "{}"}, {"tokenizer.json", "[1]"}};
    content_ = {.kind = model->kind(), .settings = model->config()};
    checkpoint::describe_bytes(content_, texts_, image_);
    joined_ = checkpoint::joined(texts_);
    calls_ = system_.spawn([this](caf::event_based_actor*) {
      return caf::behavior{[this](const CallRequest& request) { answer(request); }};
    });
  }
  ~ModelCopy() override { caf::anon_send_exit(calls_, caf::exit_reason::user_shutdown); }

  static NodeId node(int number) {
    NodeId id;
    id.value[0] = static_cast<std::byte>(number);
    return id;
  }
  void answer(const CallRequest& request) {
    const auto message = decode_copy(request.request.view);
    ASSERT_TRUE(message);
    const auto& ask = std::get<CopyAsk>(*message);
    EXPECT_EQ(ask.digest, content_.digest());
    const Manner manner = manners_.at(*request.to);
    if (manner == Manner::refuses)
      return request.done(Error{ErrorCode::not_found, "it is not here"});
    if (!ask.piece) {
      ModelContent told = content_;
      if (manner == Manner::wrong_content) ++told.step;
      return request.done(SharedBytes::from(encode_copy(told)));
    }
    if (manner == Manner::leaves) {
      std::lock_guard lock(mutex_);
      gone_.insert(*request.to);
      return;
    }
    const bool of_image = *ask.piece < content_.image_pieces();
    const ByteView from = of_image ? ByteView(image_) : as_bytes(joined_);
    Bytes bytes =
        to_bytes(from.subspan(content_.piece_first(*ask.piece), content_.piece_bytes(*ask.piece)));
    if (manner == Manner::wrong_bytes) bytes.back() ^= std::byte{1};
    if (manner == Manner::short_bytes) bytes.pop_back();
    request.done(SharedBytes::from(std::move(bytes)));
  }
  CopyOrder order() {
    return {.model = "m",
            .digest = content_.digest(),
            .holders =
                [this] {
                  std::lock_guard lock(mutex_);
                  std::vector<NodeId> here;
                  for (const auto& [holder, manner] : manners_)
                    if (!gone_.contains(holder)) here.push_back(holder);
                  return here;
                },
            .calls = calls_,
            .clock = &clock_,
            .stop = stop_.get_token()};
  }
  Result<checkpoint::WeightImage> copy() {
    return copy_model(order(), [this](std::size_t bytes) {
      room_.assign(bytes, std::byte{0});
      return Result<MutableByteView>(MutableByteView(room_));
    });
  }

  SystemClock clock_;
  Bytes image_, room_;
  std::string joined_;
  std::vector<checkpoint::TextFile> texts_;
  ModelContent content_;
  std::mutex mutex_;
  std::map<NodeId, Manner> manners_;
  std::set<NodeId> gone_;
  std::stop_source stop_;
  gpunode::testing::MemoryFileSystem disk_;
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::actor calls_;  // last: what it uses is there to its end
};

TEST_F(ModelCopy, IsWholeWhoeverElseLiesRefusesOrLeaves) {
  ASSERT_GE(content_.image_pieces(), 3u);
  const std::vector<Manner> bad{Manner::wrong_bytes, Manner::short_bytes, Manner::wrong_content,
                                Manner::refuses, Manner::leaves};
  for (int good = 0; good <= 5; ++good) {
    manners_.clear();
    gone_.clear();
    for (int i = 0; i < 5; ++i) manners_[node(i + (i >= good ? 2 : 1))] = bad[std::size_t(i)];
    manners_[node(good + 1)] = Manner::good;
    const auto image = copy();
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_EQ(image->content->digest(), content_.digest());
    EXPECT_EQ(room_, image_);
    EXPECT_EQ(*image->texts, texts_);
  }
}

TEST_F(ModelCopy, IsKeptAsAFolderThatIsLoadedAgain) {
  manners_[node(1)] = Manner::good;
  const auto image = copy();
  ASSERT_TRUE(image);
  keep_copy("m", *image, room_, disk_, "/models/d");
  Bytes again;
  const auto loaded =
      checkpoint::load_weight_image(disk_, "/models/d", {.room = [&](std::size_t bytes) {
                                      again.resize(bytes);
                                      return Result<MutableByteView>(MutableByteView(again));
                                    }});
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(again, image_);
  EXPECT_EQ(loaded->content->digest(), content_.digest());
  EXPECT_FALSE(disk_.exists("/models/d.begun"));
}

TEST_F(ModelCopy, SaysWhyThereIsNone) {
  const auto nobody = copy();
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::unavailable);
  manners_[node(1)] = Manner::refuses;
  EXPECT_THAT(copy().error().message(), HasSubstr("it is not here"));
  manners_ = {{node(1), Manner::wrong_content}};
  EXPECT_THAT(copy().error().message(), HasSubstr("not of that digest"));
  manners_ = {{node(1), Manner::wrong_bytes}, {node(2), Manner::short_bytes}};
  EXPECT_THAT(copy().error().message(), HasSubstr("wrong bytes"));
}

TEST_F(ModelCopy, EndsWhenItIsNotWantedAnyMore) {
  manners_[node(1)] = Manner::good;
  stop_.request_stop();
  EXPECT_EQ(copy().error().code, ErrorCode::cancelled);
}

// A content that is as its digest says, and no model.
TEST_F(ModelCopy, TakesNoMemoryForWhatIsNoModel) {
  content_.settings["vocabulary"] = "9001";
  manners_[node(1)] = Manner::good;
  const auto refused = copy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::corrupted);
  EXPECT_TRUE(room_.empty());
}

}  // namespace
}  // namespace gpunode::inference
