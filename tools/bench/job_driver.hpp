// JobDriver: one member's part in a row of all-reduces, as a job of the product does it:
// spawn_job() on the link's bulk thread as actors/node runs it, with a trainer and a checkpoint
// writer that do nothing but answer. The job's other work (votes, views, ticks) goes on as in
// production; its votes are kept in memory. The one class to replace when the product's own path
// changes: everything else here (processes, links, reference, clock) stays as it is.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/inline_delivery.hpp"
#include "actors/job/job_actor.hpp"
#include "actors/mailbox.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::bench {

// The members of one view and what they agreed on; alike at all but for `rank`.
struct DriverOptions {
  std::uint16_t rank = 0;
  std::vector<NodeId> members;                             // by rank
  collective::Tree tree = collective::Tree::of_slices(1);  // each member's share is one node of it
  collective::AddFn add;
  job::ExchangeMode mode = job::ExchangeMode::exact;
  std::uint64_t site = 0;                              // of the rank, see collective::StepTimes
  std::shared_ptr<const collective::WireForms> forms;  // of the mode
  transport::Link* link = nullptr;                     // open to all members; outlives the driver
  std::shared_ptr<const view::Signer> signer;          // of the rank's votes
};

class JobDriver {
  using Lane = transport::Lane;
  using Message = transport::Message;

 public:
  JobDriver()
      : system_(config_),
        on_bulk_thread_(system_),
        on_trainer_thread_(system_),
        trainer_(system_) {}
  ~JobDriver() { stop(); }

  // Called by the link, on its threads.
  void on_message(const NodeId& from, Lane lane, Message message) {
    if (message.topic != transport::Topic::job) return;
    caf::actor job;
    {
      std::lock_guard lock(mutex_);
      if (message.stream != id_.low) return;
      job = job_;
    }
    if (!job) return;
    NetMessage net{from, lane, std::make_shared<const Message>(std::move(message))};
    if (lane == Lane::bulk)
      on_bulk_thread_.deliver(job, std::move(net));
    else
      caf::anon_send(job, std::move(net));
  }

  void on_state(const NodeId& peer, Lane lane, LinkState state) {
    std::lock_guard lock(mutex_);
    if (job_) caf::anon_send(job_, LinkChanged{peer, lane, state});
  }

  WritableBytes place_of(const NodeId& from, const transport::MessageHead& head) {
    std::shared_ptr<job::StepPlaces> places;
    {
      std::lock_guard lock(mutex_);
      if (head.topic == transport::Topic::job && head.stream == id_.low) places = places_;
    }
    return places ? places->lend(from, head.body, head.payload_bytes) : WritableBytes{};
  }

  Result<collective::TreeNode> start(const DriverOptions& options, std::uint64_t element_count) {
    options_ = options;
    element_count_ = element_count;
    const JobId id{kJobs, ++serial_};
    auto places = std::make_shared<job::StepPlaces>();
    jobs::JobActorOptions chosen = job_options(id);
    chosen.core.places = places;
    caf::actor job = jobs::spawn_job(system_, std::move(chosen));
    {
      std::lock_guard lock(mutex_);
      id_ = id;
      job_ = job;
      places_ = std::move(places);
    }
    for (const NodeId& member : options.members)
      if (member != options.members[options.rank])
        caf::anon_send(job, PeerChanged{member, 1, PeerHealth::alive, {}});
    TrainerReady ready;
    ready.element_count = element_count;
    ready.tokens_per_sample = 1;
    caf::anon_send(job, std::move(ready));
    if (auto asked = await_compute(); !asked) return asked.error();
    return compute_->nodes.front();
  }

  // Lets go of everything of that length.
  void stop() {
    caf::actor job;
    {
      std::lock_guard lock(mutex_);
      std::swap(job, job_);
      places_.reset();
    }
    if (!job) return;
    caf::anon_send(job, Shutdown{});
    trainer_->wait_for(job);
    compute_.reset();
    applied_.reset();
  }

  // What lies between two sums in a job and is no part of the exchange: the state is updated, the
  // next partial is asked for. Not timed. Fails with: timeout.
  Result<void> next() {
    if (!applied_) return {};
    Applied applied;
    applied.step = *applied_;
    applied.state = Digest{applied.step, 1};
    applied_.reset();
    on_trainer_thread_.deliver(job_, std::move(applied));
    return await_compute();
  }

  // Sums the members' partials. Returns when every member is known to hold the same result: DONE
  // and digest of all are here. Fails with: timeout, corrupted (the members disagree).
  Result<collective::SharedFloats> sum(collective::SharedFloats partial) {
    job::PartialRange range;
    range.compute_id = compute_->id;
    range.step = compute_->step;
    range.node = compute_->nodes.front();
    range.sum = std::move(partial);
    range.data_fingerprint.sample_count = 1;
    range.count = element_count_;
    on_trainer_thread_.deliver(job_, std::move(range));
    collective::SharedFloats total;
    trainer_->receive(
        [&](ApplyTotal& apply) {
          total = std::move(apply.total);
          applied_ = apply.step;
        },
        caf::after(kTimeout) >> [] {});
    if (!total) return Error{ErrorCode::timeout, "the step is not committed"};
    return total;
  }

 private:
  static constexpr auto kTimeout = std::chrono::seconds(60);
  static constexpr std::uint64_t kSteps = 1'000'000'000;  // never reached
  static constexpr std::uint64_t kJobs = 0x6265'6e63'6800'0000;

  // As actors/node sets it.
  struct Config : caf::actor_system_config {
    Config() {
      set("scheduler.policy", caf::atom("sharing"));
      set("scheduler.max-throughput", std::size_t{100});
      set("scheduler.max-threads", std::size_t{2});
    }
  };

  // Takes what is told to a supervisor, and is a checkpoint writer that is never asked.
  static caf::behavior listen(caf::event_based_actor* self) {
    expect_known_messages(self);
    return {[](const jobs::JobProgress&) {}, [self](const Shutdown&) { self->quit(); }};
  }

  // Until the job wants this member's partial sum of the next step.
  Result<void> await_compute() {
    compute_.reset();
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    while (!compute_ || compute_->nodes.empty()) {
      if (std::chrono::steady_clock::now() > deadline)
        return Error{ErrorCode::timeout, "the job did not ask for a partial sum"};
      trainer_->receive([&](job::Compute& compute) { compute_ = std::move(compute); },
                        caf::after(std::chrono::seconds(1)) >> [] {});
    }
    if (compute_->nodes.size() != 1)
      return Error{ErrorCode::wrong_state, "the plan gives this member more than one partial sum"};
    return {};
  }

  jobs::JobActorOptions job_options(const JobId& id) {
    const auto nodes = static_cast<std::uint32_t>(options_.members.size());
    jobs::JobActorOptions job;
    job.id = id;
    job.spec.name = "bench";
    job.spec.nodes = job.spec.min_nodes = nodes;
    job.spec.train.steps = kSteps;
    job.spec.train.slices = options_.tree.slice_count();
    job.spec.train.tree = options_.tree.radices();
    job.spec.checkpoint.every = 0;
    job.spec.candidates = options_.members;
    job.core.self = {options_.members[options_.rank], 1};
    job.core.signer = options_.signer;
    job.store_votes = [](ByteView) { return Result<void>(); };
    job.send = [link = options_.link](const NodeId& to, Lane lane, Message message) {
      return link->send(to, lane, std::move(message));
    };
    const caf::actor trainer = caf::actor_cast<caf::actor>(trainer_);
    job.spawn_trainer = [trainer](caf::actor) { return trainer; };
    job.spawn_checkpoints = [this](caf::actor) { return system_.spawn(listen); };
    job.core.add = options_.add;
    job.spec.exchange.mode = options_.mode;
    job.core.forms = options_.forms;
    job.core.site = options_.site;
    job.cluster = &cluster_;
    job.clock = &clock_;
    job.supervisor = system_.spawn(listen);
    return job;
  }

  Config config_;
  caf::actor_system system_;
  InlineDelivery on_bulk_thread_;
  InlineDelivery on_trainer_thread_;
  caf::scoped_actor trainer_;
  ClusterState cluster_;
  SystemClock clock_;
  DriverOptions options_;
  std::uint64_t element_count_ = 0;
  std::uint64_t serial_ = 0;
  std::optional<job::Compute> compute_;   // the newest
  std::optional<std::uint64_t> applied_;  // step whose sum is here and not yet told as applied
  std::mutex mutex_;
  JobId id_;
  std::shared_ptr<job::StepPlaces> places_;
  caf::actor job_;
};

}  // namespace gpunode::bench
