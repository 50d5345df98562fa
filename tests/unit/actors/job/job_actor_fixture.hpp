// A job's actor of one member between its mailboxes: its trainer and its checkpoint writer are the
// test, so that both answer when it wants.
#pragma once

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <nlohmann/json.hpp>

#include <atomic>
#include <future>
#include <limits>

#include "actors/job/job_actor.hpp"
#include "actors/messages.hpp"
#include "tests/support/twin_orders.hpp"

namespace gpunode::jobs {

inline constexpr auto kTimeout = std::chrono::seconds(60);  // only a defect waits for so long
inline constexpr std::size_t kSmall = 4;                    // elements of a gradient

class JobActor : public ::testing::Test {
 protected:
  void TearDown() override { caf::anon_send_exit(job_, caf::exit_reason::kill); }

  void start(std::uint64_t steps, std::uint64_t every, std::size_t elements = kSmall,
             bool finds_checkpoint = false) {
    elements_ = elements;
    NodeId id;
    id.value[0] = std::byte{1};
    NodeInfo info;
    info.id = id;
    info.name = "here";
    info.self = true;
    cluster_.write({.self = id, .nodes = {info}, .entries = {}, .records = {}});
    JobActorOptions options;
    options.id = {1, 1};
    options.spec.name = "small";
    options.spec.train.steps = steps;
    options.spec.train.slices = 1;
    options.spec.checkpoint.every = every;
    options.spec.candidates = {id};
    options.core.self = {id, ++boot_};
    options.core.signer = std::make_shared<view::TwinSigner>(id);
    options.core.may_order = view::orders_of([id](const NodeId& by) { return by == id; });
    options.core.votes = *votes_;
    options.store_votes = [votes = votes_](ByteView bytes) {
      *votes = to_bytes(bytes);
      return Result<void>{};
    };
    options.history = *history_;
    options.store_history = [history = history_](caf::actor job, Bytes bytes) {
      *history = std::move(bytes);
      caf::anon_send(job, HistoryWritten{});
    };
    options.send = [](const NodeId&, transport::Lane, transport::Message) {
      return Result<void>{};
    };
    options.spawn_trainer = [this](caf::actor) { return caf::actor(trainer_.ptr()); };
    options.spawn_checkpoints = [this](caf::actor) { return caf::actor(writer_.ptr()); };
    options.core.add = [](float* out, std::span<const float* const> in, std::size_t count) {
      std::copy_n(in[0], count, out);
    };
    options.cluster = &cluster_;
    options.clock = &time_;
    options.finds_checkpoint = finds_checkpoint;
    options.supervisor = caf::actor(supervisor_.ptr());
    job_ = spawn_job(system_, std::move(options));
    caf::anon_send(job_, TrainerReady{elements, {2, 2}, "", {3, 3}, 1, false});
  }

  // What `actor` gets next of this kind; what lies before it in the mailbox stays there.
  template <class Message>
  Message next(caf::scoped_actor& actor) {
    Message got{};
    actor->receive([&](const Message& one) { got = one; },
                   caf::after(kTimeout) >> [] { ADD_FAILURE() << "nothing came"; });
    return got;
  }
  template <class Message>
  std::vector<Message> all(caf::scoped_actor& actor) {
    std::vector<Message> got;
    for (bool more = true; more;)
      actor->receive([&](const Message& one) { got.push_back(one); },
                     caf::after(std::chrono::seconds(0)) >> [&] { more = false; });
    return got;
  }

  void compute(std::uint64_t step) {
    const job::Compute wanted = next<job::Compute>(trainer_);
    ASSERT_EQ(wanted.step, step);
    ASSERT_EQ(wanted.nodes.size(), 1u) << "one member owns the root";
    auto sum = std::make_shared<const std::vector<float>>(elements_, 1.0f);
    caf::anon_send(job_,
                   job::PartialRange{wanted.id, step, wanted.nodes[0], sum, {}, 0, elements_, {}});
    ASSERT_EQ(next<ApplyTotal>(trainer_).step, step);
  }
  void apply(std::uint64_t step) {
    Applied applied;
    applied.step = step;
    applied.state = {step, step};
    caf::anon_send(job_, applied);
  }
  void run_to(std::uint64_t last) {
    for (; done_ < last; ++done_) {
      compute(done_ + 1);
      apply(done_ + 1);
    }
  }

  std::future<std::string> order(const std::string& name, const std::string& arguments = "{}") {
    auto promise = std::make_shared<std::promise<std::string>>();
    auto answer = promise->get_future();
    nlohmann::json told = nlohmann::json::parse(arguments);
    if (is_order(name)) told["order"] = to_hex(encode(signed_order(name, told)));
    caf::anon_send(job_, Command{name, told.dump(),
                                 [promise](std::string text) { promise->set_value(text); }});
    return answer;
  }
  view::SignedOrder signed_order(const std::string& name, const nlohmann::json& arguments) {
    const auto from = resumed_from(name, arguments);
    view::OrderKind kind = from ? view::OrderKind::resume_from : view::OrderKind::resume;
    if (name == "job.stop") kind = view::OrderKind::stop;
    if (name == "job.recover") kind = view::OrderKind::recover;
    NodeId owner;
    owner.value[0] = std::byte{1};
    return view::order_of({1, 1}, owner, kind, ++orders_, from.value_or(0));
  }
  nlohmann::json told(std::future<std::string>& answer) {
    if (answer.wait_for(kTimeout) != std::future_status::ready) return {};
    return nlohmann::json::parse(answer.get());
  }
  // Asked of the job, which has then carried out all that was sent before.
  nlohmann::json ask(const std::string& name) {
    auto answer = order(name);
    return told(answer);
  }
  std::size_t events_with(const std::string& text) {
    std::size_t count = 0;
    const nlohmann::json log = ask("job.log");
    for (const auto& event : log["events"])
      count += event["text"].get<std::string>().find(text) != std::string::npos;
    return count;
  }

  // Reads the supervisor's news until the job is in this phase, and then ticks once more.
  void wait_for(JobPhase phase) {
    while (!HasFailure() && next<JobProgress>(supervisor_).phase != phase) {
    }
    caf::anon_send(job_, Tick{});
  }

  // The trainer's copy for each checkpoint that it was asked for: their steps.
  std::vector<std::uint64_t> read_states() {
    std::vector<std::uint64_t> steps;
    ask("job.log");
    for (const ReadState& one : all<ReadState>(trainer_)) {
      const std::uint64_t step = one.token & (std::numeric_limits<std::uint64_t>::max() >> 1);
      steps.push_back(step);
      caf::anon_send(job_, StateRead{one.token, step, SharedBytes::from(Bytes(8))});
    }
    return steps;
  }
  // The disk takes the oldest checkpoint that waits for it.
  void write_one(Result<std::string> path = std::string("/there")) {
    const auto order = next<WriteCheckpoint>(writer_);
    caf::anon_send(job_,
                   CheckpointWritten{{order.step, order.state_digest, order.running, order.history},
                                     order.copy,
                                     std::move(path),
                                     {}});
  }

  // Sees the clock jump, as if the disk had hung for so long.
  class JumpingClock final : public Clock {
   public:
    Time now() const override { return clock_.now() + ahead_.load(); }
    std::chrono::system_clock::time_point wall() const override { return clock_.wall(); }
    void jump(Duration by) { ahead_ = ahead_.load() + by; }

   private:
    SystemClock clock_;
    std::atomic<Duration> ahead_{Duration{}};
  };
  // Of a job with this checkpoint on its disk, which begins as it is found.
  void find(const CheckpointsFound& found) {
    next<FindCheckpoint>(writer_);
    caf::anon_send(job_, found);
  }
  static job::Checkpoint checkpoint(std::uint64_t step) { return {step, {step, step}, {}, {}}; }

  // The node dies after step 4 and comes back with a checkpoint of that step, which it is to read.
  void come_back() {
    start(10, 0);
    run_to(4);
    ask("job.progress");
    caf::anon_send_exit(job_, caf::exit_reason::kill);
    all<job::Compute>(trainer_);  // of the step that it died in
    start(10, 0, kSmall, true);
    find({checkpoint(4), {}, {}, std::nullopt});
    ASSERT_EQ(next<ReadCheckpoint>(writer_).step, 4u);
    done_ = 4;
  }

  JumpingClock time_;
  std::shared_ptr<Bytes> votes_ = std::make_shared<Bytes>();
  std::shared_ptr<Bytes> history_ = std::make_shared<Bytes>();
  std::uint64_t boot_ = 0;
  std::int64_t orders_ = 0;
  ClusterState cluster_;
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor trainer_{system_}, writer_{system_}, supervisor_{system_};
  caf::actor job_;
  std::size_t elements_ = 0;
  std::uint64_t done_ = 0;
};

using Steps = std::vector<std::uint64_t>;

}  // namespace gpunode::jobs
