#include "runtime/job/view_news.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kTellEvery = std::chrono::milliseconds(100);
constexpr Duration kAskPeerEvery = std::chrono::milliseconds(50);
constexpr Duration kAskEvery = std::chrono::milliseconds(1000);
constexpr Duration kGossipEvery = std::chrono::milliseconds(2000);
constexpr Duration kTellRefusalEvery = std::chrono::seconds(10);
constexpr Duration kDeafFor = std::chrono::milliseconds(100);
constexpr int kMostAnswers = 10;                // to questions, in that time
constexpr std::size_t kProofBytes = 96u << 10;  // that a message has room for
constexpr std::size_t kMostAhead = 4096;
}  // namespace

ViewNotice notice_of(view::ViewChain chain) {
  view::bound_proofs(chain, kProofBytes);
  return {std::move(chain)};
}

void ViewNews::on_view() {
  ahead_.clear();
  for (auto& [node, peer] : peers_) peer.ready = false;
}

void ViewNews::on_message(const NodeId& from, const view::ViewName& theirs) {
  Peer& peer = peers_[from];
  if (theirs.view_id >= peer.view.view_id) peer.view = theirs;
  peer.proven = theirs;
}

void ViewNews::tell(const NodeId& to, bool always, Actions& out) {
  if (job_.view().view_id == 0) return;
  Peer& peer = peers_[to];
  const bool again = peer.told != Time{} && job_.now < peer.told + kTellEvery;
  if (!again) peer.answers = 0;
  if (again && (!always || ++peer.answers > kMostAnswers)) return;
  peer.told = job_.now;
  job_.send(to, notice_of(view::since(job_.agreement.votes().chain, peer.proven)), out);
}

std::optional<view::ViewChain> ViewNews::on_told(const NodeId& from, const view::ViewChain& told,
                                                 bool astray, Actions& out) {
  Peer& peer = peers_[from];
  if (peer.in_vain != Time{} && job_.now < peer.in_vain + kDeafFor) return std::nullopt;
  view::ViewChain all = ahead_;
  all.insert(all.end(), told.begin(), told.end());
  view::Proven proven = job_.agreement.prove(all, astray);
  if (!proven.chain.empty()) return std::move(proven.chain);
  if (proven.on_the_way.size() > ahead_.size() && proven.on_the_way.size() < kMostAhead) {
    ahead_ = std::move(proven.on_the_way);
    peer.asked = Time{};
    ask(from, out);
  } else {
    peer.in_vain = job_.now;
  }
  return std::nullopt;
}

void ViewNews::tell_newest(const NodeId& to, Actions& out) {
  Peer& peer = peers_[to];
  if (peer.told != Time{} && job_.now < peer.told + kTellEvery) return;
  peer.told = job_.now;
  const view::ViewChain& chain = job_.agreement.votes().chain;
  const auto first =
      chain.end() - static_cast<std::ptrdiff_t>(std::min(chain.size(), view::kKeptWhole + 1));
  job_.send(to, notice_of({first, chain.end()}), out);
}

void ViewNews::on_ask(const NodeId& from, const ViewAsk& ask) {
  peers_[from].proven = ask.proven;
}

void ViewNews::ask(const NodeId& from, Actions& out) {
  Peer& peer = peers_[from];
  if (job_.now < peer.asked + kAskPeerEvery) return;
  peer.asked = job_.now;
  const view::View& proven = ahead_.empty() ? job_.view() : ahead_.back().view;
  job_.send(from, ViewAsk{proven.name(), proven.digest()}, out);
}

void ViewNews::ask_tick(Actions& out) {
  if (!job_.is_changing()) asked_ = job_.now;
  if (!job_.is_changing() || job_.now < asked_ + kAskEvery) return;
  asked_ = job_.now;
  const ViewAsk ask{job_.view().name(), job_.view().digest()};
  for (const NodeId& node : job_.everybody_and_hints()) job_.send(node, ask, out);
}

bool ViewNews::tells_refusal() {
  if (job_.now < refusal_told_ + kTellRefusalEvery) return false;
  refusal_told_ = job_.now;
  return true;
}

bool ViewNews::is_gossip_due() {
  if (!job_.member || job_.now < gossiped_ + kGossipEvery) return false;
  gossiped_ = job_.now;
  return true;
}

bool ViewNews::knows(const NodeId& node) const {
  const auto found = peers_.find(node);
  const bool has_view = found != peers_.end() && found->second.view.view_id >= job_.view().view_id;
  const bool awaits = job_.gives_base() && !broken("leaves_with_the_base");
  if (has_view && (!awaits || found->second.ready)) return true;
  return broken("leaves_past_gone") && job_.gone(node);
}

bool ViewNews::all_know() const {
  const auto& members = job_.view().members;
  return std::all_of(members.begin(), members.end(),
                     [this](const view::Member& one) { return knows(one.node); });
}

void ViewNews::ask_members(Actions& out) const {
  for (const view::Member& one : job_.view().members)
    if (!knows(one.node))
      job_.send(one.node, ViewAsk{job_.view().name(), job_.view().digest()}, out);
}

}  // namespace gpunode::job
