#include "runtime/job/device_link.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::job {

namespace {
constexpr Duration kInviteEvery = std::chrono::seconds(2);
}  // namespace

void DeviceLink::on_view(Actions& out) {
  if (state_ == State::opening || state_ == State::stands)
    out.push_back(CloseGroup{"another view begins", 0});
  state_ = State::none;
  where_ = Where::unknown;
  invite_.clear();
  everybody_has_it_ = false;
}

// What travels in a form is not what is added, and with a route others add on its way.
bool DeviceLink::may_open() const {
  return job_.options.device_link && !job_.options.forms && !job_.options.routing.route;
}

void DeviceLink::on_commit(const std::vector<collective::StepTimes>& told, Actions& out) {
  everybody_has_it_ = told.size() == job_.view().members.size() &&
                      std::ranges::all_of(told, &collective::StepTimes::has_group);
  if (told.empty()) return;
  const std::uint64_t site = told.front().site;
  const bool near = site != 0 && std::ranges::all_of(told, [&](const collective::StepTimes& one) {
                      return one.site == site;
                    });
  where_ = near ? Where::near : Where::apart;
  if (state_ != State::none || !may_open() || told.size() < 2) return;
  if (job_.view().rank_of(job_.self()) == 0 && may_reach()) open({}, out);
}

void DeviceLink::open(Bytes invite, Actions& out) {
  const view::View& view = job_.view();
  state_ = State::opening;
  view_ = view.name();
  out.push_back(OpenGroup{view_, *view.rank_of(job_.self()),
                          static_cast<std::uint16_t>(view.members.size()), where_ == Where::apart,
                          std::move(invite)});
}

void DeviceLink::on_message(const NodeId& from, const GroupInvite& invite, Actions& out) {
  const bool of_first = !job_.view().members.empty() && job_.view().members.front().node == from;
  if (!of_first || !job_.member || !may_open() || state_ != State::none) return;
  if (!may_reach()) return;  // it is told again, and by then this node knows where all are
  open(invite.bytes, out);
}

void DeviceLink::on_invite(const view::ViewName& view, Bytes invite, Actions& out) {
  if (state_ != State::opening || view != view_) return;
  invite_ = std::move(invite);
  told_ = {};
  on_tick(out);
}

void DeviceLink::on_tick(Actions& out) {
  const bool tells = state_ == State::opening || (state_ == State::stands && !everybody_has_it_);
  if (!tells || invite_.empty() || job_.now < told_ + kInviteEvery) return;
  told_ = job_.now;
  for (const NodeId& member : job_.other_members()) job_.send(member, GroupInvite{invite_}, out);
}

void DeviceLink::on_group(const view::ViewName& view, const std::string& trouble, Actions& out) {
  if ((state_ != State::opening && state_ != State::stands) || view != view_) return;
  if (trouble.empty()) {
    state_ = State::stands;
    job_.report("the devices of the " + std::to_string(job_.view().members.size()) +
                    " members are a group: their sums go from device to device",
                out);
    return;
  }
  state_ = State::broken;
  job_.report("the devices of the members are no group, their sums go over the links: " + trouble,
              out);
}

void DeviceLink::break_off(const std::string& reason, std::uint64_t step, Actions& out) {
  if (state_ == State::opening || state_ == State::stands)
    job_.report("the sums go over the links from step " + std::to_string(step) + " on: " + reason,
                out);
  state_ = State::broken;
  out.push_back(CloseGroup{reason, step});
}

}  // namespace gpunode::job
