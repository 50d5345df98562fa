#include "actors/inference/detail/model_copy.hpp"

#include <caf/send.hpp>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

#include "actors/inference/copy_codec.hpp"
#include "actors/inference/copy_plan.hpp"
#include "actors/inference/detail/copy_shelf.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::inference {
namespace {

using checkpoint::ModelContent;

// Of a piece; a node that is gone is noticed long before.
constexpr auto kPieceTimeout = std::chrono::minutes(5);
constexpr auto kContentTimeout = std::chrono::seconds(20);
// So often it is looked who has the model, and whether this is still wanted.
constexpr auto kInboxPatience = std::chrono::milliseconds(200);
constexpr auto kTellEvery = std::chrono::seconds(10);

struct Arrived {
  NodeId from;
  std::optional<std::size_t> piece;  // absent: the content
  Result<SharedBytes> bytes;
};

// From the threads that bring answers to the one that waits for them; outlives it where they come late.
class Inbox {
 public:
  void put(Arrived arrived) {
    std::lock_guard lock(mutex_);
    all_.push_back(std::move(arrived));
    changed_.notify_one();
  }
  std::optional<Arrived> take(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, at_most, [&] { return !all_.empty(); })) return {};
    Arrived first = std::move(all_.front());
    all_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arrived> all_;
};

class Copier {
 public:
  Copier(const CopyOrder& order, const ServedModel::Options::Room& room)
      : order_(order), room_(room) {}

  Result<checkpoint::WeightImage> run() {
    if (auto found = find_content(); !found) return found.error();
    // The texts first: no memory is spent on an image before it is known to be a model's.
    texts_.resize(content_->text_bytes());
    if (auto here = take_pieces(content_->image_pieces(), content_->text_pieces()); !here)
      return here.error();
    auto texts = checkpoint::texts_in(*content_, texts_);
    if (!texts) return texts.error();
    auto image = checkpoint::image_of(content_, *std::move(texts));
    if (!image) return image.error();
    const auto place = room_(content_->image_bytes);
    if (!place) return place.error();
    image_ = *place;
    if (auto here = take_pieces(0, content_->image_pieces()); !here) return here.error();
    return image;
  }

 private:
  void ask(const NodeId& holder, std::optional<std::size_t> piece) {
    caf::anon_send(
        order_.calls,
        CallRequest{.to = holder,
                    .name = kCopyCall,
                    .request = SharedBytes::from(encode_copy(CopyAsk{order_.digest, piece})),
                    .timeout = piece ? Duration(kPieceTimeout) : Duration(kContentTimeout),
                    .done = [inbox = inbox_, holder, piece](Result<SharedBytes> bytes) {
                      inbox->put({holder, piece, std::move(bytes)});
                    }});
  }

  Error nobody() const {
    std::string text = "nobody is left who has model " + order_.model;
    for (const auto& [node, why] : said_) text += "; " + node.short_text() + ": " + why;
    return {ErrorCode::unavailable, text};
  }
  bool is_stopped() const { return order_.stop.stop_requested(); }
  Error stopped() const {
    return {ErrorCode::cancelled, "model " + order_.model + " is not wanted any more"};
  }

  // From the first who tells it as the digest says.
  Result<void> find_content() {
    std::set<NodeId> asked;
    for (const NodeId& holder : order_.holders()) {
      asked.insert(holder);
      ask(holder, {});
    }
    for (std::size_t left = asked.size(); left > 0;) {
      if (is_stopped()) return stopped();
      auto arrived = inbox_->take(kInboxPatience);
      if (!arrived) continue;
      --left;
      if (auto read = read_content(arrived->bytes); !read)
        said_[arrived->from] = read.error().message();
      else
        return {};
    }
    return nobody();
  }

  Result<void> read_content(const Result<SharedBytes>& bytes) {
    if (!bytes) return bytes.error();
    auto message = decode_copy(bytes->view);
    auto* content = message ? std::get_if<ModelContent>(&*message) : nullptr;
    if (!content || content->digest() != order_.digest)
      return {ErrorCode::corrupted, "what it tells is not of that digest"};
    content_ = std::make_shared<const ModelContent>(std::move(*content));
    return {};
  }

  // So many from the first on.
  Result<void> take_pieces(std::size_t first, std::size_t count) {
    CopyPlan plan(count);
    const auto ask_next = [&] {
      for (const CopyPlan::Ask& one : plan.next()) ask(one.holder, first + one.piece);
    };
    const Time begin = order_.clock->now();
    Time told = begin;
    while (!plan.is_done()) {
      if (is_stopped()) return stopped();
      plan.set_holders(order_.holders());
      ask_next();
      if (plan.is_stuck()) return nobody();
      auto arrived = inbox_->take(kInboxPatience);
      // All that is there, before it is looked again who has the model.
      for (; arrived; arrived = inbox_->take(std::chrono::milliseconds(0))) {
        take(plan, first, *std::move(arrived));
        ask_next();
        if (plan.is_done() || is_stopped()) break;
      }
      if (const Time now = order_.clock->now(); now - told >= kTellEvery) {
        told = now;
        log::info("serving", "model " + order_.model + ": " + std::to_string(plan.here()) + " of " +
                                 std::to_string(count) + " pieces are here");
      }
    }
    const double seconds = std::chrono::duration<double>(order_.clock->now() - begin).count();
    if (first == 0)
      log::info("serving", "model " + order_.model + ": " +
                               std::to_string(content_->image_bytes >> 20) + " MiB from " +
                               std::to_string(plan.given().size()) + " nodes in " +
                               std::to_string(seconds) + " s");
    return {};
  }

  void take(CopyPlan& plan, std::size_t first, Arrived arrived) {
    // The content, or a text's, once more.
    if (!arrived.piece || *arrived.piece < first) return;
    const std::size_t piece = *arrived.piece, at = piece - first;
    if (first == 0 && piece >= content_->image_pieces()) return;
    if (!arrived.bytes) {
      said_[arrived.from] = arrived.bytes.error().message();
      return plan.on_failed(arrived.from, at);
    }
    const ByteView bytes = arrived.bytes->view;
    if (bytes.size() != content_->piece_bytes(piece) ||
        storage::sha256_of(bytes) != content_->pieces[piece]) {
      said_[arrived.from] = "gave wrong bytes";
      log::warning("serving", "model " + order_.model + ": node " + arrived.from.short_text() +
                                  " gave wrong bytes, and is asked no more");
      return plan.on_wrong(arrived.from);
    }
    if (!plan.on_good(arrived.from, at)) return;
    std::byte* const to =
        piece < content_->image_pieces()
            ? image_.data() + content_->piece_first(piece)
            : reinterpret_cast<std::byte*>(texts_.data()) + content_->piece_first(piece);
    std::memcpy(to, bytes.data(), bytes.size());
  }

  const CopyOrder& order_;
  const ServedModel::Options::Room& room_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::shared_ptr<const ModelContent> content_;
  MutableByteView image_;
  std::string texts_;
  std::map<NodeId, std::string> said_;  // by whom that could not give it, why
};

}  // namespace

Result<checkpoint::WeightImage> copy_model(const CopyOrder& order,
                                           const ServedModel::Options::Room& room) {
  return Copier(order, room).run();
}

void keep_copy(const std::string& model, const checkpoint::WeightImage& image, ByteView bytes,
               storage::FileSystem& files, const storage::Path& folder) {
  const storage::Path begun = folder.string() + ".begun";
  static_cast<void>(files.remove(begun));  // of a node that was killed over it
  Result<void> kept;
  if (auto saved = checkpoint::save_weight_image(files, image, bytes, begun); !saved)
    kept = saved.error();
  else
    kept = files.rename(begun, folder);
  if (kept) kept = files.sync_folder(folder.parent_path());
  if (kept) return;
  static_cast<void>(files.remove(begun));
  log::warning("serving", "model " + model +
                              " is served, and is not kept on this node's disk, so that a restart "
                              "takes it from others again: " +
                              kept.error().message());
}

}  // namespace gpunode::inference
