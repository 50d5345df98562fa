// The exact exchange in a plain loop: the link's threads queue what arrives, sum() takes it from
// there. Messages are those of the product (job_codec), so bytes, encoding and digests count.
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "runtime/job/job_codec.hpp"
#include "runtime/job/step_places.hpp"
#include "tools/bench/exchange_driver.hpp"

namespace gpunode::bench {
namespace {

using collective::SharedFloats;
using transport::Lane;
using transport::Message;

constexpr auto kTick = std::chrono::milliseconds(20);
constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::uint64_t kView = 1;
const JobId kJob{0x6265'6e63'6800'0001, 0x6578'6163'7400'0001};

class BareDriver final : public ExchangeDriver {
 public:
  void on_message(const NodeId& from, Lane, Message message) override {
    std::lock_guard lock(mutex_);
    inbox_.emplace_back(from, std::move(message));
    arrived_.notify_one();
  }
  // A break is healed by NEED.
  void on_state(const NodeId&, Lane, LinkState) override {}

  WritableBytes place_of(const NodeId& from, const transport::MessageHead& head) override {
    return places_.lend(from, head.body, head.payload_bytes);
  }

  Result<collective::TreeNode> start(const DriverOptions& options,
                                     std::uint64_t element_count) override {
    options_ = options;
    layout_ = collective::ChunkLayout::of(element_count);
    plan_ =
        collective::balanced_plan(options.tree, static_cast<std::uint16_t>(options.members.size()));
    plan_digest_ = plan_.digest();
    return options.tree.cover(plan_.slices_of(options.rank)).front();
  }

  void stop() override {
    places_.close();
    current_.reset();
    previous_.reset();
    for (auto& buffer : buffers_) buffer.reset();
  }

  Result<void> next() override { return {}; }

  Result<SharedFloats> sum(SharedFloats partial) override {
    begin();
    std::vector<collective::SendTo> sends;
    current_->on_partial(now(), current_->own_cover().front(), std::move(partial), {}, sends);
    send_all(step_, sends);
    std::deque<std::pair<NodeId, job::StepMessage>> waiting;
    waiting.swap(early_);
    for (const auto& [from, message] : waiting) take(from, message);
    const Time began = now();
    while (!current_->committed()) {
      if (current_->disagreed())
        return Error{ErrorCode::corrupted, "the members hold different results"};
      if (now() - began > kTimeout) return Error{ErrorCode::timeout, "no DONE of all members"};
      wait_and_take();
    }
    return current_->result();
  }

 private:
  Time now() const { return clock_.now(); }

  // The last exchange stays until this one is through: a peer may still ask for parts of it.
  void begin() {
    previous_ = std::move(current_);
    ++step_;
    collective::AllReduce::Options chosen;
    chosen.rank = options_.rank;
    chosen.member_count = static_cast<std::uint16_t>(options_.members.size());
    chosen.tree = options_.tree;
    chosen.plan = plan_;
    chosen.layout = layout_;
    chosen.add = options_.add;
    chosen.result_buffer = free_buffer();
    current_.emplace(std::move(chosen), now());
    places_.open({{kView, step_, {}, plan_digest_},
                  options_.members,
                  layout_.chunk_count(),
                  current_->places()});
  }

  // One that neither an exchange nor a message on its way holds any longer.
  std::shared_ptr<std::vector<float>> free_buffer() {
    for (auto& buffer : buffers_) {
      if (!buffer) buffer = std::make_shared<std::vector<float>>(layout_.element_count);
      if (buffer.use_count() == 1) return buffer;
    }
    return nullptr;
  }

  void wait_and_take() {
    std::deque<std::pair<NodeId, Message>> arrived;
    {
      std::unique_lock lock(mutex_);
      if (inbox_.empty()) arrived_.wait_for(lock, kTick);
      arrived.swap(inbox_);
    }
    for (auto& [from, message] : arrived) {
      auto decoded = job::decode_message(message.body, std::move(message.payload), kJob,
                                         layout_.element_count);
      if (!decoded) continue;
      if (const auto* step = std::get_if<job::StepMessage>(&decoded->body)) take(from, *step);
    }
    if (!arrived.empty()) return;
    std::vector<collective::SendTo> sends;
    current_->on_tick(now(), sends);
    send_all(step_, sends);
  }

  void take(const NodeId& from, const job::StepMessage& message) {
    std::uint16_t rank = 0;
    while (rank < options_.members.size() && options_.members[rank] != from) ++rank;
    std::vector<collective::SendTo> sends;
    if (message.step > step_)
      early_.emplace_back(from, message);
    else if (message.step == step_)
      current_->on_message(now(), rank, message.message, sends);
    else if (message.step + 1 == step_ && previous_)
      previous_->on_message(now(), rank, message.message, sends);
    send_all(message.step, sends);
  }

  void send_all(std::uint64_t step, const std::vector<collective::SendTo>& sends) {
    for (const collective::SendTo& one : sends) {
      const bool partial = std::holds_alternative<collective::PartialChunk>(one.message);
      const bool need = std::holds_alternative<collective::Need>(one.message);
      collective::EncodedMessage encoded = job::encode_message(
          {kJob, {{}, kView}, 1, job::StepMessage{step, plan_digest_, one.message}});
      // What is lost is asked for again.
      (void)options_.link->send(
          options_.members[one.rank], need ? Lane::control : Lane::bulk,
          {transport::Topic::job, kJob.low, std::move(encoded.body), std::move(encoded.payload),
           partial ? transport::Urgency::normal : transport::Urgency::high});
    }
  }

  SystemClock clock_;
  DriverOptions options_;
  collective::ChunkLayout layout_;
  collective::SlicePlan plan_;
  Digest plan_digest_;
  std::uint64_t step_ = 0;
  job::StepPlaces places_;
  std::optional<collective::AllReduce> current_, previous_;
  std::array<std::shared_ptr<std::vector<float>>, 3> buffers_;
  std::deque<std::pair<NodeId, job::StepMessage>> early_;  // of the next step
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::pair<NodeId, Message>> inbox_;
};

}  // namespace

std::unique_ptr<ExchangeDriver> make_bare_driver() {
  return std::make_unique<BareDriver>();
}

}  // namespace gpunode::bench
