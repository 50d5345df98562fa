#include "actors/node/admission_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"
#include "actors/node/admission_commands.hpp"
#include "actors/node/cluster_actor.hpp"
#include "actors/node/credential_news.hpp"
#include "actors/node/endpoints.hpp"
#include "actors/node/entry.hpp"
#include "actors/node/member_list.hpp"
#include "actors/node/relay_codec.hpp"
#include "runtime/base/log.hpp"
#include "runtime/security/forgers.hpp"
#include "runtime/transport/join_socket.hpp"

namespace gpunode::node {
namespace {

struct DialBackDone {
  std::uint64_t check = 0;
  std::string reached;
};

struct TakeHeard {};  // all that has come in: who tells much costs others no more than one look
// At once, and where more comes, all of it after so long: nodes that join by the dozen cost each of the
// others a look at all of them together.
constexpr Duration kTakeEvery = std::chrono::milliseconds(200);
struct TakeNewKey {};  // this node's links, once the others have heard of it
constexpr auto kTick = std::chrono::milliseconds(500);
// How often a log that grows is told of, and what is known of others' is written down.
constexpr Duration kTellAudit = std::chrono::seconds(10);
constexpr Duration kCountRefusals = std::chrono::minutes(1);
constexpr Duration kUpkeep = std::chrono::hours(1);  // of the list of nodes
constexpr auto kHeard = std::chrono::milliseconds(250);
constexpr Duration kDialTerm = std::chrono::seconds(2);
// Credentials that came with a session are news to others, too, unless they are as many as a new node
// is told of.
constexpr std::size_t kNews = 32;

struct Heard {
  security::Credentials credentials;
  Bytes summary;  // the newest; empty: none
};

struct State {
  static inline const char* name = "admission";
  AdmissionOptions options;
  std::optional<security::JoinServer> server;
  std::map<security::JoinExchange, std::function<void(Bytes)>> replies;
  security::JoinExchange next_exchange = 1;
  security::Forgers forgers;
  security::AuditHead told;  // to all
  Time next_told, next_count, next_upkeep;
  std::optional<CredentialNews> news;
  std::map<NodeId, Heard> heard;  // by teller, not looked at yet
  Time taken{};                   // when they last were
  NewKey new_key = NewKey::heard;
};
using Self = caf::stateful_actor<State>;

Time now(Self* self) {
  return self->state.options.clock->now();
}
security::WallTime wall(Self* self) {
  return self->state.options.clock->wall();
}

Result<void> send(Self* self, const NodeId& to, const RelayMessage& message, Bytes bytes) {
  return self->state.options.link->send(
      to, transport::Lane::control,
      {transport::Topic::admission, 0, encode(message), SharedBytes::from(std::move(bytes))});
}

Result<void> send(Self* self, const NodeId& to, RelayKind kind, std::uint64_t relay, Bytes bytes) {
  return send(self, to, RelayMessage{kind, relay}, std::move(bytes));
}

std::string name_of(Self* self, const NodeId& node) {
  const auto list = self->state.options.admissions->snapshot();
  const security::Standing* standing = list->find(node);
  return (standing ? standing->name() + " " : "") + "(" + node.short_text() + ")";
}

// Into the audit log; what cannot be written is an error of the node's, not of who asked.
bool note(Self* self, std::string_view event, const std::vector<security::AuditField>& fields) {
  if (!self->state.options.audit) return false;
  const auto logged = self->state.options.audit->append(wall(self), event, fields);
  if (!logged)
    log::error("admission", "the audit log cannot be written: " + logged.error().message());
  return logged.has_value();
}

void store_list(Self* self) {
  if (auto stored = self->state.options.admissions->store(); !stored)
    log::warning("admission", "cannot store credentials: " + stored.error().message());
}

// Who is here is noted, who was not for long is forgotten.
void look_after_list(Self* self) {
  State& state = self->state;
  if (now(self) < state.next_upkeep) return;
  state.next_upkeep = now(self) + kUpkeep;
  const NodeId own = state.options.identity->id();
  const auto forgotten = state.options.admissions->forget_the_unseen(own, wall(self));
  if (!forgotten) return log::warning("admission", forgotten.error().message());
  std::vector<NodeId> here{own};
  const auto cluster = state.options.cluster->read();
  for (const NodeInfo& node : cluster->nodes)
    if (cluster->alive(node.id)) here.push_back(node.id);
  state.options.admissions->saw(here, wall(self));
  if (*forgotten == 0) return;
  log::info("admission", std::to_string(*forgotten) +
                             " nodes were not seen for 30 days and are forgotten: they come back "
                             "by a new token");
  note(self, "nodes_forgotten", {{"count", std::to_string(*forgotten)}});
  self->send(state.options.cluster_actor, AdmissionsChanged{{}});
}

// Those who are put out are so on all that is of this node before others are told.
void take_in(Self* self, security::Credentials added) {
  if (added.empty()) return;
  for (const security::Revocation& revocation : added.revocations) {
    const std::string by = name_of(self, revocation.issuer);
    log::warning("admission", name_of(self, revocation.node) + " was put out of the cluster by " +
                                  by + (revocation.reason.empty() ? "" : ": " + revocation.reason));
    note(self, "node_revoked",
         {{"node", revocation.node.text()},
          {"by", revocation.issuer.text()},
          {"reason", revocation.reason}});
  }
  self->send(self->state.options.cluster_actor, AdmissionsChanged{changed_by(added)});
  if (added.admissions.size() > kNews) added.admissions.clear();
  if (added.link_keys.size() > kNews) added.link_keys.clear();
  self->state.news->spread(added);
  // After a new start much counts that did not before: what was not kept comes anew.
  const auto& founding = self->state.options.admissions->cluster();
  if (std::ranges::any_of(added.revocations, [&](const security::Revocation& one) {
        return one.issuer == founding.recovery_id();
      }))
    self->state.news->greet_all();
}

void on_audit_head(Self* self, const NodeId& from, ByteView bytes) {
  const AdmissionOptions& options = self->state.options;
  const auto list = options.admissions->snapshot();
  const security::Standing* standing = list->find(from);
  if (!standing || !options.audit) return;
  auto heard = options.witness->on_told(from, standing->sign_key(), bytes, *options.audit,
                                        *options.identity);
  if (heard.answer) (void)send(self, from, RelayKind::audit_head, 0, std::move(*heard.answer));
  if (heard.event.empty()) return;
  note(self, heard.event, heard.fields);
  log::error("admission",
             (heard.event == "audit_rolled_back"
                  ? "the audit log of this node was deleted or put back, as is remembered by "
                  : "the audit log was deleted or put back of ") +
                 name_of(self, from) + ": `gpunode audit show --kind " + heard.event + "`");
}

void tell_audit_head(Self* self, const NodeId& to) {
  const AdmissionOptions& options = self->state.options;
  if (options.audit)
    (void)send(self, to, RelayKind::audit_head, 0,
               security::AuditWitness::told(*options.audit, *options.identity));
}

void settle_audit(Self* self) {
  if (!self->state.options.audit) return;
  if (auto settled = self->state.options.audit->settle(); !settled)
    log::error("admission", "the audit log cannot be written: " + settled.error().message());
}

void look_after_audit(Self* self) {
  State& state = self->state;
  if (!state.options.audit) return;
  settle_audit(self);
  const inference::HttpAudit::Note of_http = [&](std::string_view event, const auto& fields) {
    return note(self, event, fields);
  };
  if (state.options.http_audit) state.options.http_audit->look_at_keys(of_http);
  if (now(self) >= state.next_count) {
    if (state.options.http_audit) state.options.http_audit->tell_refusals(of_http);
    state.next_count = now(self) + kCountRefusals;
    for (const auto& [node, refused] : state.options.refusals->take())
      note(self, "member_refused",
           {{"node", node.text()},
            {"count", std::to_string(refused.count)},
            {"newest", refused.newest}});
  }
  if (now(self) < state.next_told) return;
  state.next_told = now(self) + kTellAudit;
  if (auto stored = state.options.witness->store(); !stored)
    log::warning("admission", stored.error().message());
  if (state.told == state.options.audit->head()) return;
  state.told = state.options.audit->head();
  for (const NodeId& node : state.news->linked()) tell_audit_head(self, node);
}

void carry_out(Self* self, security::JoinServer::Actions actions);

// Tries the joiner's addresses on a thread of its own: a firewall may swallow the dial. A failure takes
// as long whatever its cause.
void dial_back(Self* self, const security::JoinServer::DialBack& order) {
  self->system().spawn<caf::detached>([me = caf::actor(self), order] {
    const auto until = std::chrono::steady_clock::now() + kDialTerm * order.endpoints.size();
    std::string reached;
    for (const std::string& endpoint : order.endpoints)
      if (reached.empty() && transport::tcp_reachable(endpoint, kDialTerm)) reached = endpoint;
    if (reached.empty()) std::this_thread::sleep_until(until);
    caf::anon_send(me, DialBackDone{order.check, reached});
  });
}

struct CarryOut {
  Self* self;
  void operator()(security::JoinServer::Send& order) {
    auto reply = self->state.replies.extract(order.exchange);
    if (!reply.empty()) reply.mapped()(std::move(order.frame));
  }
  void operator()(security::JoinServer::Relay& order) {
    if (!send(self, order.issuer, RelayKind::relay_request, order.relay, std::move(order.frame)))
      carry_out(self, self->state.server->on_relay_failed(order.relay));
  }
  void operator()(security::JoinServer::AnswerRelay& order) {
    (void)send(self, order.via, {RelayKind::relay_answer, order.relay, {}, {}, {}, order.admitted},
               std::move(order.frame));
  }
  void operator()(security::JoinServer::DialBack& order) { dial_back(self, order); }
  void operator()(security::JoinServer::DialWish& order) {
    (void)send(self, order.via, {RelayKind::dial_wish, order.relay, std::move(order.endpoints)},
               {});
  }
  void operator()(security::JoinServer::DialOutcome& order) {
    (void)send(self, order.issuer,
               {RelayKind::dial_outcome, order.relay, {}, order.reached, order.seen_from}, {});
  }
  void operator()(security::JoinServer::Admitted& order) {
    log::info("admission", order.admission.name + " (" + order.admission.node.short_text() +
                               ") was admitted" + (order.reachable ? "" : "; it is dial-only"));
    take_in(self, {{order.admission}, {order.link_key}, {}});
  }
};

void carry_out(Self* self, security::JoinServer::Actions actions) {
  // Others hear of a new node before it hears that it is in, so that they know its key by then.
  std::ranges::stable_partition(actions, [](const auto& action) {
    return std::holds_alternative<security::JoinServer::Admitted>(action);
  });
  for (auto& action : actions) std::visit(CarryOut{self}, action);
}

Heard& heard_of(Self* self, const NodeId& teller) {
  State& state = self->state;
  if (state.heard.empty())
    self->delayed_send(self, std::max(state.taken + kTakeEvery - now(self), Duration{}),
                       TakeHeard{});
  return state.heard[teller];
}

void take_heard(Self* self, const NodeId& from, const security::Credentials& credentials) {
  State& state = self->state;
  auto merged = state.options.admissions->merge(credentials, from);
  if (!merged) return;  // there is a teller: it does not fail
  if (merged->unstored)
    log::warning("admission", "cannot store credentials: " + merged->unstored->message());
  if (merged->forged) {
    state.forgers.caught(from, now(self));
    state.options.offenders->offended(from, security::Offenders::kForged);
    state.options.refusals->add(from, "a record with a wrong signature");
  }
  for (const NodeId& node : merged->restored) {
    log::warning("admission", name_of(self, node) +
                                  " is a member again: who put it out had been put out itself");
    note(self, "node_restored", {{"node", node.text()}});
  }
  if (!merged->restored.empty()) self->send(state.options.cluster_actor, AdmissionsChanged{{}});
  take_in(self, std::move(merged->added));
  // What was refused by the word of who has none comes anew.
  if (!merged->restored.empty()) state.news->greet_all();
}

void on_net(Self* self, const NetMessage& net) {
  State& state = self->state;
  if (net.message->topic != transport::Topic::admission) return;
  const auto offended = [&] {
    state.options.offenders->offended(net.from, security::Offenders::kMalformed);
  };
  auto message = decode_relay(net.message->body);
  if (!message) return offended();
  ByteView bytes = net.message->payload.view;
  switch (message->kind) {
    case RelayKind::credentials: {
      if (!state.forgers.hears(net.from, now(self))) return;
      auto credentials = security::decode_credentials(bytes);
      if (!credentials) return offended();
      heard_of(self, net.from).credentials.add(*credentials);
      return;
    }
    case RelayKind::relay_request:
      return carry_out(
          self, state.server->on_relayed(now(self), wall(self), net.from, message->relay, bytes));
    case RelayKind::relay_answer:
      return carry_out(
          self, state.server->on_relay_answer(net.from, message->relay, bytes, message->admitted));
    case RelayKind::audit_head:
      return on_audit_head(self, net.from, bytes);
    case RelayKind::summary:
      heard_of(self, net.from).summary = to_bytes(bytes);
      return;
    case RelayKind::dial_wish:
      return carry_out(self, state.server->on_dial_wish(now(self), net.from, message->relay,
                                                        message->endpoints));
    case RelayKind::dial_outcome:
      return carry_out(self, state.server->on_dial_outcome(wall(self), net.from, message->relay,
                                                           message->reached, message->seen_from));
  }
}

// The order is written down before it is answered.
void on_command(Self* self, const Command& command) {
  const AdmissionOptions& options = self->state.options;
  const nlohmann::json arguments = arguments_of(command.arguments);
  security::Credentials added;
  const auto run = [&]() -> Result<nlohmann::json> {
    // It would be told to nobody.
    if (auto out = options.shut_outs->put_out(*options.cluster->read());
        out && (command.name == "token.create" || command.name == "keys.rotate"))
      return *std::move(out);
    if (command.name == "token.create") return create_token(options, arguments, wall(self));
    if (command.name == "token.ls") return list_tokens(options, wall(self));
    if (command.name == "token.revoke") return revoke_token(options, arguments, wall(self));
    if (command.name == "keys.rotate")
      return rotate_keys(options, wall(self), self->state.new_key, added);
    if (command.name == "cluster.refound") return refound(options, arguments, wall(self), added);
    return revoke_node(options, arguments, wall(self), added);
  };
  const auto done = run();
  if (added.admissions.size() > kNews)
    self->state.news->spread(added);  // take_in tells of few alone
  take_in(self, added);
  if (!added.link_keys.empty()) self->delayed_send(self, kHeard, TakeNewKey{});
  command.answer(answer_json(done));
}

void write_audit(Self* self, const AuditNote& entry) {
  if (!self->state.options.audit)
    return entry.done(Error{ErrorCode::wrong_state, "this node keeps no audit log"});
  std::vector<security::AuditField> fields;
  for (const auto& [name, value] : entry.fields) fields.push_back({name, value});
  auto logged = self->state.options.audit->append(wall(self), entry.event, fields);
  if (!logged)
    log::error("admission", "the audit log cannot be written: " + logged.error().message());
  entry.done(logged ? logged : Result<void>(logged.error().within("audit log")));
}

// Nothing proves what a refused greeting says: it is worth a line, now and then.
void on_shut_out(Self* self, const NodeId& by) {
  if (!self->state.options.shut_outs->add(by, now(self))) return;
  log::error("admission", lets_in_no_more(name_of(self, by)));
  note(self, "shut_out", {{"by", by.text()}});
}

void on_knock(Self* self, const JoinKnock& knock) {
  security::JoinExchange exchange = self->state.next_exchange++;
  self->state.replies[exchange] = knock.reply;
  if (self->state.replies.size() > 2 * security::JoinServer::kMaxPending)
    self->state.replies.erase(self->state.replies.begin());  // the oldest went unanswered
  carry_out(self, self->state.server->on_frame(now(self), wall(self), exchange, knock.address,
                                               knock.frame));
}

caf::behavior behaviour(Self* self, std::shared_ptr<AdmissionOptions> options) {
  State& state = self->state;
  state.options = std::move(*options);
  expect_known_messages(self);
  const ClusterState* cluster = state.options.cluster;
  state.news.emplace(*state.options.link, *state.options.admissions);
  state.server.emplace(security::JoinServer::Parts{
      *state.options.identity, *state.options.admissions, *state.options.tokens,
      state.options.audit.get(), state.options.name,
      [cluster](const NodeId& node) { return cluster->read()->alive(node); },
      [cluster, own = state.options.identity->id()](std::optional<NodeId> via, std::size_t most) {
        return seeds_of(*cluster->read(), own, via, most);
      },
      state.options.dial_too, own_addresses});
  self->delayed_send(self, kTick, Tick{});
  return {
      [self](const JoinKnock& knock) { on_knock(self, knock); },
      [self](const NetMessage& net) { on_net(self, net); },
      [self](const DialBackDone& done) {
        carry_out(self, self->state.server->on_dial_back(wall(self), done.check, done.reached));
      },
      [self](const LinkChanged& link) {  // a session is up: it may know less than we do
        if (link.lane != transport::Lane::control) return;
        if (link.state == LinkState::reset) self->state.news->on_reset(link.peer);
        if (link.state == LinkState::shut_out) on_shut_out(self, link.peer);
        if (link.state != LinkState::up) return;
        self->state.options.shut_outs->forget(link.peer);
        if (self->state.new_key == NewKey::in_use) self->state.new_key = NewKey::heard;
        self->state.news->on_session(link.peer);
        tell_audit_head(self, link.peer);
      },
      [self](const TakeHeard&) {
        self->state.taken = now(self);
        for (const auto& [from, heard] : std::exchange(self->state.heard, {})) {
          if (heard.credentials != security::Credentials{})
            take_heard(self, from, heard.credentials);
          if (!heard.summary.empty()) self->state.news->on_summary(from, heard.summary);
        }
      },
      [self](const TakeNewKey&) {
        const AdmissionOptions& options = self->state.options;
        options.link->use_keys(link_keys_of(*options.identity));
        self->state.new_key = NewKey::in_use;
      },
      [](const PeerChanged&) {},  // comes with LinkChanged; admissions outlive their owners
      [self](const Tick&) {
        self->delayed_send(self, kTick, Tick{});
        carry_out(self, self->state.server->on_tick(now(self), wall(self)));
        look_after_audit(self);
        look_after_list(self);
        self->state.news->on_tick();
        store_list(self);
      },
      [self](const Command& command) { on_command(self, command); },
      [self](const AuditNote& entry) { write_audit(self, entry); },
      [self](const Shutdown&) {
        store_list(self);
        settle_audit(self);
        self->quit();
      },
  };
}

}  // namespace

caf::actor spawn_admission(caf::actor_system& system, AdmissionOptions options) {
  return system.spawn(behaviour, std::make_shared<AdmissionOptions>(std::move(options)));
}

}  // namespace gpunode::node
