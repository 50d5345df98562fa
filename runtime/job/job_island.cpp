// Mode nccl: the members' devices meet once a view and then sum its steps. What the device of this
// member comes to is told with each step's exchange, where the way of the step is decided; a device
// that fails in the middle of a sum ends the view, so that nobody is left with half a step.
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

using collective::IslandNews;
using collective::IslandStage;
using collective::IslandVerdict;

// Each view's devices meet anew, as ranks and members are others.
void JobCore::State::begin_island(Time at, Actions& out) {
  if (!options.island) return;
  const view::View& view = agreement.view();
  const bool wanted = member && view.members.size() > 1 && !view.stopped &&
                      view.base_step < options.total_steps && at >= island_barred_until;
  if (view.members.size() < 2) {
    island_told = {};
    island_told.reason = "a member alone has nothing to exchange";
  }
  island_named = false;
  island_joining.clear();
  ++island_formation;
  if (wanted) {
    island = {IslandStage::opening, {}, options.host, {}};
    out.push_back(StartIsland{island_formation});
  } else {
    if (island.stage != IslandStage::absent) island = {IslandStage::absent, {}, options.host, {}};
    if (island_runs) out.push_back(EndIsland{});
  }
  island_runs = wanted;
}

// What follows of the members' words about the step under way.
void JobCore::State::watch_island(Time at, Actions& out) {
  if (!options.island || !exchange || exchange->way() == collective::Way::undecided) return;
  // Lost after this member had said that its device has joined.
  if (exchange->way() == collective::Way::island && !exchange->held() && !island_runs)
    return change_view(at, "nccl: " + island.reason, out);
  if (auto sum = exchange->take_island_sum())
    out.push_back(SumOnIsland{++island_order, std::move(*sum)});
  const IslandVerdict verdict = exchange->island_verdict();
  const auto& offers = exchange->island_offers();
  const view::View& view = agreement.view();
  if (offers.size() != view.members.size()) return;
  const std::uint16_t rank = *view.rank_of(options.self.node);
  using Kind = IslandVerdict::Kind;
  if (verdict.kind == Kind::make_name && rank == 0 && !island_named) {
    island_named = true;
    out.push_back(NameIsland{collective::on_one_host(offers)});
  }
  if (verdict.kind == Kind::join && island_joining.empty()) {
    island_joining = offers.front()->name;
    out.push_back(JoinIsland{island_joining, rank, static_cast<std::uint16_t>(view.members.size()),
                             collective::place_on_host(offers, rank),
                             collective::on_one_host(offers)});
  }
  if (verdict.kind == Kind::unknown) return;
  IslandUse use;
  use.used = exchange->way() == collective::Way::island;
  use.later = !use.used && verdict.kind != Kind::links;
  if (use.later) use.reason = "the members' GPUs have not met yet";
  if (!use.used && !use.later) {
    use.node = view.members[verdict.rank].node;
    use.reason = verdict.reason;
  }
  if (use == island_told) return;
  island_told = use;
  out.push_back(WayTaken{exchange_step, std::move(use)});
}

void JobCore::State::on_island(Time at, const IslandNews& news, Actions& out) {
  if (!island_runs || news.formation != island_formation) return;
  switch (news.kind) {
    case IslandNews::Kind::able:
      island.stage = IslandStage::able;
      break;
    case IslandNews::Kind::named:
      island.name = news.name;
      break;
    case IslandNews::Kind::joined:
      island.stage = IslandStage::joined;
      island.name = island_joining;
      break;
    case IslandNews::Kind::summed: {
      if (news.order != island_order || !exchange || !can_exchange()) return;
      std::vector<collective::SendTo> sends;
      exchange->on_island_sum(at, sends);
      send_step(exchange_step, sends, out);
      advance(at, out);
      break;
    }
    case IslandNews::Kind::lost:
      lose_island(at, news.reason, out);
      break;
  }
}

void JobCore::State::lose_island(Time at, const std::string& reason, Actions& out) {
  island = {IslandStage::absent,
            reason.substr(0, collective::IslandOffer::kMostReason),
            options.host,
            {}};
  island_barred_until = at + options.timings.island_again;
  if (island_runs) out.push_back(EndIsland{});
  island_runs = false;
  const bool in_sum = exchange && exchange->way() == collective::Way::island;
  if (in_sum && !exchange->held() && can_exchange()) change_view(at, "nccl: " + reason, out);
}

}  // namespace gpunode::job
