// Mode nccl: the core's orders to this machine's island, what the island tells the core, and what
// people are told of the way that the steps take.
#include <caf/send.hpp>

#include <utility>

#include "actors/exchange/detail/job_actor_state.hpp"
#include "actors/exchange/job_report.hpp"
#include "runtime/island/island.hpp"

namespace gpunode::exchange::actor {

void set_up_island(Self* self, job::JobCore::Options& core) {
  State& state = self->state;
  const JobActorOptions& options = state.options;
  if (options.spec.exchange.mode != "nccl" || options.witness) return;
  core.island = true;
  core.island_unsealed = options.spec.bulk == "plain";
  core.host = island::host_digest();
  state.island = std::make_unique<island::Island>(
      island::Island::Options{.program = options.rank_program,
                              .element_count = core.element_count,
                              .add = options.island_add,
                              .tell = [job = caf::actor(self)](collective::IslandNews news) {
                                caf::anon_send(job, IslandTold{std::move(news)});
                              }});
}

void IslandOrders::operator()(const job::StartIsland& order) const {
  if (self->state.island) self->state.island->start(order.formation);
}
void IslandOrders::operator()(const job::NameIsland& order) const {
  if (self->state.island) self->state.island->make_name(order.one_host);
}
void IslandOrders::operator()(const job::JoinIsland& order) const {
  if (!self->state.island) return;
  self->state.island->join(order.name,
                           {order.rank, order.member_count, order.place_on_host, order.one_host});
}
void IslandOrders::operator()(const job::SumOnIsland& order) const {
  if (self->state.island) self->state.island->sum(order.order, order.sum);
}
void IslandOrders::operator()(const job::EndIsland&) const {
  if (self->state.island) self->state.island->end();
}
void IslandOrders::operator()(const job::WayTaken& taken) const {
  const auto cluster = self->state.options.cluster->read();
  note(self, "from step " + std::to_string(taken.step) + " on " + island_text(taken.use, *cluster));
}

void on_island_told(Self* self, const IslandTold& told) {
  feed(self,
       [&](job::JobCore& core, Time t, job::Actions& out) { core.on_island(t, told.news, out); });
}

}  // namespace gpunode::exchange::actor
