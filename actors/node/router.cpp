#include "actors/node/router.hpp"

#include <caf/send.hpp>

#include "actors/node/admission_actor.hpp"
#include "actors/node/needed_rights.hpp"

namespace gpunode::node {
namespace {

constexpr auto kHeardEvery = std::chrono::milliseconds(50);

std::string_view name_of(transport::Topic topic) {
  switch (topic) {
    case transport::Topic::membership:
      return "membership";
    case transport::Topic::directory:
      return "directory";
    case transport::Topic::call:
      return "call";
    case transport::Topic::reply:
      return "reply";
    case transport::Topic::job:
      return "job";
    case transport::Topic::admission:
      return "admission";
  }
  return "";
}

// A message with what it takes of its sender's share, while it waits.
struct Waiting {
  transport::Message message;
  PeerLimits::Place place;
};

}  // namespace

void Router::set_targets(Targets targets) {
  std::unique_lock lock(mutex_);
  if (cleared_) return;
  targets_ = std::move(targets);
  on_bulk_thread_ = std::make_unique<InlineDelivery>(targets_.job_board->home_system());
}

void Router::set_job(std::uint64_t stream, caf::actor job,
                     std::shared_ptr<job::StepPlaces> places) {
  std::unique_lock lock(mutex_);
  if (job && !cleared_)
    jobs_[stream] = {std::move(job), std::move(places)};
  else
    jobs_.erase(stream);
}

void Router::clear() {
  std::unique_lock lock(mutex_);
  cleared_ = true;
  targets_ = {};
  jobs_.clear();
}

bool Router::due(const NodeId& peer) {
  Time now = clock_.now();
  std::lock_guard lock(heard_mutex_);
  Time& last = heard_[peer];
  if (last != Time{} && now < last + kHeardEvery) return false;
  last = now;
  return true;
}

bool Router::may_speak(const NodeId& from, transport::Topic topic) const {
  if (topic != transport::Topic::job) return true;
  const std::string_view name = name_of(topic);
  const bool may = may_ask(Asked::topic, name, targets_.authority->rights(from)).has_value();
  if (!may) targets_.authority->refused(from, name);
  return may;
}

const caf::actor* Router::target_of(transport::Topic topic) const {
  switch (topic) {
    case transport::Topic::membership:
    case transport::Topic::directory:
      return &targets_.cluster;
    case transport::Topic::call:
    case transport::Topic::reply:
      break;
    case transport::Topic::job:
      return &targets_.job_board;
    case transport::Topic::admission:
      return &targets_.admission;
  }
  return nullptr;
}

void Router::on_message(const NodeId& from, transport::Lane lane, transport::Message message) {
  std::shared_lock lock(mutex_);
  const caf::actor* target = target_of(message.topic);
  if (!targets_.cluster || (target && !*target) || !may_speak(from, message.topic)) return;
  if (target != &targets_.cluster && due(from)) caf::anon_send(targets_.cluster, Heard{from});
  if (!target) {
    const std::shared_ptr<Calls> calls = targets_.calls;
    lock.unlock();  // a handler may take its time
    return calls->on_message(from, message);
  }
  const bool job_on_bulk = lane == transport::Lane::bulk && message.topic == transport::Topic::job;
  auto place = targets_.limits->enter(
      from, job_on_bulk ? Load::job_bulk : load_of(Asked::topic, name_of(message.topic)),
      message.body.size() + message.payload.size());
  if (!place) return;
  auto waiting = std::make_shared<const Waiting>(std::move(message), std::move(place));
  std::shared_ptr<const transport::Message> shared(waiting, &waiting->message);
  if (job_on_bulk) {
    auto job = jobs_.find(shared->stream);
    if (job == jobs_.end()) return;  // it repeats what matters
    caf::actor actor = job->second.actor;
    lock.unlock();  // the handler may end the job
    return on_bulk_thread_->deliver(actor, NetMessage{from, lane, std::move(shared)});
  }
  caf::anon_send(*target, NetMessage{from, lane, std::move(shared)});
}

WritableBytes Router::place_of(const NodeId& from, const transport::MessageHead& head) {
  std::shared_ptr<job::StepPlaces> places;
  {
    std::shared_lock lock(mutex_);
    if (head.topic != transport::Topic::job) return {};
    if (auto job = jobs_.find(head.stream); job != jobs_.end()) places = job->second.places;
  }
  return places ? places->lend(from, head.body, head.payload_bytes) : WritableBytes{};
}

bool Router::may_read(const NodeId& from) {
  std::shared_lock lock(mutex_);
  return !targets_.limits || targets_.limits->has_room(from, Load::job_bulk);
}

void Router::on_state(const NodeId& peer, transport::Lane lane, LinkState state) {
  std::shared_lock lock(mutex_);
  if (targets_.cluster) caf::anon_send(targets_.cluster, LinkChanged{peer, lane, state});
}

void Router::on_knock(const std::string& address, Bytes frame, std::function<void(Bytes)> reply) {
  std::shared_lock lock(mutex_);
  if (targets_.admission)
    caf::anon_send(targets_.admission, JoinKnock{address, std::move(frame), std::move(reply)});
}

}  // namespace gpunode::node
