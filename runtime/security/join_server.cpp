#include "runtime/security/join_server.hpp"

#include "runtime/base/log.hpp"
#include "runtime/security/detail/join_party.hpp"
#include "runtime/security/detail/layout.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpunode::security {

namespace {

constexpr int kFramesOfAJoin = 2;        // hello and request
constexpr std::size_t kMostSeeds = 256;  // some 300 bytes a record, 700 of credentials

void append(JoinServer::Actions& to, JoinServer::Actions from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace

JoinServer::JoinServer(Parts parts) : parts_(std::move(parts)), banner_key_(random_secret<32>()) {}

JoinServer::Actions JoinServer::on_frame(Time now, WallTime wall, JoinExchange exchange,
                                         std::string_view address, ByteView frame) {
  auto kind = frame_kind(frame);
  if (kind != JoinFrame::hello && kind != JoinFrame::request) return {};
  if (!rate_.allow(detail::party(address), now)) {
    return refuse_in_clear({exchange, {}}, JoinRefusal::too_many,
                           "too many attempts to join from " + std::string(address));
  }
  return kind == JoinFrame::hello
             ? on_hello(wall, exchange, frame)
             : on_request(now, wall, {exchange, {}, std::string(address)}, frame);
}

JoinServer::Actions JoinServer::on_hello(WallTime wall, JoinExchange exchange, ByteView frame) {
  auto hello = decode_hello(frame);
  if (!hello) return {};
  JoinBanner banner;
  banner.cluster_hash = parts_.admissions.cluster().public_hash();
  banner.clock = wall;
  banner.node = parts_.identity.id();
  banner.name = parts_.name;
  banner.nonce = banner_nonce(wall);
  const auto list = parts_.admissions.snapshot();
  const Standing* issuer = list->find(hello->issuer);
  if (hello->issuer == parts_.identity.id()) {
    banner.issuer = IssuerState::here;
  } else if (issuer == nullptr) {
    banner.issuer = IssuerState::unknown;
  } else if (issuer->revoked) {
    banner.issuer = IssuerState::put_out;
  } else {
    banner.issuer = parts_.is_up(hello->issuer) ? IssuerState::up : IssuerState::away;
  }
  return {Send{exchange, encode_banner(banner)}};
}

// The time in milliseconds and a MAC of it: recognised later without having been remembered.
Nonce JoinServer::banner_nonce(WallTime wall) const {
  detail::LayoutWriter writer;
  writer.time(wall);
  Sha256 mac = hmac_sha256(banner_key_.view(), writer.bytes());
  writer.raw(ByteView(mac).first(24));
  return detail::LayoutReader(writer.bytes()).array<32>();
}

bool JoinServer::banner_is_fresh(const Nonce& nonce, WallTime wall) const {
  const WallTime shown = detail::LayoutReader(nonce).time();
  return constant_time_equal(banner_nonce(shown), nonce) &&
         std::chrono::abs(wall - shown) <= kBannerTerm;
}

JoinServer::Actions JoinServer::on_request(Time now, WallTime wall, const Origin& origin,
                                           ByteView frame) {
  auto issuer = request_issuer(frame);
  if (!issuer)
    return refuse_in_clear(origin, JoinRefusal::protocol_mismatch, issuer.error().detail);
  if (*issuer == parts_.identity.id()) return decide(now, wall, origin, frame);
  if (parts_.admissions.snapshot()->find(*issuer) == nullptr) {
    return refuse_in_clear(
        origin, JoinRefusal::issuer_unknown,
        "the node that made the token (" + issuer->short_text() + ") is not known here");
  }
  if (!parts_.is_up(*issuer)) {
    return refuse_in_clear(origin, JoinRefusal::issuer_away,
                           "the node that made the token (" + name_of(*issuer) + ") is away");
  }
  if (pending() >= kMaxPending) {
    return refuse_in_clear(origin, JoinRefusal::too_many, "64 joins are in progress here");
  }
  std::uint64_t number = next_number_++;
  relays_[number] = {origin.number, *issuer, now + kRelayTerm, origin.address};
  return {Relay{number, *issuer, to_bytes(frame)}};
}

JoinServer::Actions JoinServer::on_relayed(Time now, WallTime wall, const NodeId& via,
                                           std::uint64_t relay, ByteView frame) {
  auto issuer = request_issuer(frame);
  if (!issuer || *issuer != parts_.identity.id()) {
    return refuse_in_clear({relay, via}, JoinRefusal::malformed, "relayed to the wrong node");
  }
  if (!relay_rate_.allow(via.text(), now))
    return refuse_in_clear({relay, via}, JoinRefusal::too_many,
                           "too many attempts to join through node " + name_of(via));
  return decide(now, wall, {relay, via}, frame);
}

JoinServer::Actions JoinServer::on_relay_answer(const NodeId& issuer, std::uint64_t relay,
                                                ByteView frame, bool admitted) {
  const auto found = relays_.find(relay);
  if (found == relays_.end() || found->second.issuer != issuer) return {};
  const auto relayed = relays_.extract(found);
  if (admitted) give_back(relayed.mapped().address, relayed.mapped().dialled);
  return {Send{relayed.mapped().exchange, to_bytes(frame)}};
}

JoinServer::Actions JoinServer::on_relay_failed(std::uint64_t relay) {
  const auto relayed = relays_.extract(relay);
  if (!relayed) return {};
  return refuse_in_clear(
      {relayed.mapped().exchange, {}}, JoinRefusal::issuer_away,
      "the node that made the token (" + name_of(relayed.mapped().issuer) + ") does not answer");
}

// As the issuer. Nothing of the request is parsed before its proof is checked.
JoinServer::Actions JoinServer::decide(Time now, WallTime wall, const Origin& origin,
                                       ByteView frame) {
  auto opened = open_request(frame, parts_.identity);
  if (!opened) {
    return refuse_in_clear(origin, JoinRefusal::wrong_token,
                           "the join request is not sealed to the key of this node");
  }
  const JoinRequest& claim = opened->request;
  if (!origin.via && !banner_is_fresh(claim.banner_nonce, wall)) {
    return refuse_stranger(origin, claim, JoinRefusal::stale_banner,
                           "the join request answers no banner of the last minute");
  }
  const Secret<32>* proof_key = parts_.tokens.proof_key(claim.token);
  if (proof_key == nullptr || !proves_token(*opened, *proof_key, parts_.admissions.cluster(),
                                            parts_.identity.curve_key())) {
    return refuse_stranger(origin, claim, JoinRefusal::wrong_token, unknown_token());
  }
  // Every node of the cluster works for every new one: identities without end are let in one by one, and
  // whoever has to wait costs no signatures.
  if (parts_.admissions.snapshot()->find(node_id_of(claim.sign_key)) == nullptr &&
      !token_rate_.allow(to_hex(claim.token), now))
    return refuse_in_clear(origin, JoinRefusal::too_many,
                           "by one token " + std::to_string(kJoinsAtOnce) +
                               " nodes join at once, and then one a second");
  auto request = believe_request(*opened);
  if (!request) {
    return refuse(wall, origin, claim, JoinRefusal::malformed, request.error().detail);
  }
  const NodeId node = node_id_of(request->sign_key);
  if (parts_.admissions.snapshot()->find(node) != nullptr && !again_rate_.allow(node.text(), now))
    return refuse_in_clear(origin, JoinRefusal::too_many,
                           "this node is a member and joins again and again");
  TokenVerdict verdict = parts_.tokens.check(request->token, node, wall);
  if (verdict != TokenVerdict::good) return refuse_token(wall, origin, *request, verdict);
  return check_address(now, wall, origin, std::move(*request));
}

// The use of the token is on disk before the admission, and both before the answer.
JoinServer::Actions JoinServer::admit(WallTime wall, const Origin& origin,
                                      const JoinRequest& request, bool reachable,
                                      std::string remark) {
  NodeId node = node_id_of(request.sign_key);
  TokenVerdict verdict = parts_.tokens.check(request.token, node, wall);
  if (verdict != TokenVerdict::good) return refuse_token(wall, origin, request, verdict);
  const Rights rights = parts_.tokens.rights(request.token);
  const auto list = parts_.admissions.snapshot();
  if (!list->may(parts_.identity.id(), kRightAdmit | rights, wall)) {
    return refuse(wall, origin, request, JoinRefusal::may_not_admit,
                  "node " + name_of(parts_.identity.id()) + " may not admit others that may " +
                      to_text(rights));
  }
  if (const Standing* known = list->find(node); known && known->revoked) {
    return refuse(wall, origin, request, JoinRefusal::put_out,
                  "this node was put out of the cluster; it can come back under new keys only");
  }
  auto used = parts_.tokens.use(request.token, node, wall);
  if (!used) {
    return refuse(wall, origin, request, JoinRefusal::storage_failed, used.error().message());
  }
  bool fresh = false;
  auto admission = admission_for(wall, request, fresh);
  if (!admission) {
    JoinRefusal refusal = admission.error().code == ErrorCode::invalid_argument
                              ? JoinRefusal::malformed
                              : JoinRefusal::storage_failed;
    return refuse(wall, origin, request, refusal, admission.error().message());
  }
  if (fresh && origin.via)
    relay_rate_.give_back(origin.via->text(), 1);
  else if (fresh)
    give_back(origin.address, reachable);
  audit(wall, "node_admitted",
        {{"node", node.text()},
         {"name", request.record.name},
         {"token", to_hex(request.token)},
         {"rights", to_text(admission->rights)},
         {"reachable", reachable ? "yes" : "no"},
         {"again", fresh ? "no" : "yes"}});
  JoinAnswer reply;
  reply.reachable = reachable;
  reply.detail = std::move(remark);
  reply.admission = *admission;
  Actions actions = answer(origin, welcome(std::move(reply), origin, request), fresh);
  actions.push_back(Admitted{*admission, request.link_key, request.record, reachable});
  return actions;
}

// What let somebody in was no attempt of a stranger: many may join from one address.
void JoinServer::give_back(std::string_view address, bool dialled) {
  rate_.give_back(detail::party(address), kFramesOfAJoin + (dialled ? 1 : 0));
}

// Names those whom the new node needs first, and what proves them; the rest comes with its sessions.
// Fewer where that does not fit, as when their chains are long.
Bytes JoinServer::welcome(JoinAnswer reply, const Origin& origin,
                          const JoinRequest& request) const {
  for (std::size_t most = kMostSeeds;; most /= 2) {
    std::vector<NodeId> nodes{parts_.identity.id()};
    if (parts_.members) {
      Seeds seeds = parts_.members(origin.via, most);
      reply.members = std::move(seeds.records);
      nodes.insert(nodes.end(), seeds.nodes.begin(), seeds.nodes.end());
    }
    reply.credentials = parts_.admissions.chain_of(nodes);
    Bytes frame = encode_answer(reply, request, parts_.identity);
    if (frame.size() <= kMaxAnswerBytes || most <= 1) return frame;
  }
}

// The record of a node that asks again, because its answer was lost, is the one it had.
Result<Admission> JoinServer::admission_for(WallTime wall, const JoinRequest& request,
                                            bool& fresh) {
  NodeId node = node_id_of(request.sign_key);
  const Rights rights = parts_.tokens.rights(request.token);
  auto snapshot = parts_.admissions.snapshot();
  const Standing* known = snapshot->find(node);
  fresh = known == nullptr || known->link_key != request.link_key ||
          known->name() != request.record.name || !known->may(rights, wall);
  if (!fresh) return known->admissions.front();
  Admission record;
  record.node = node;
  record.sign_key = request.sign_key;
  record.name = request.record.name;
  record.rights = rights;
  record.issued = wall;
  return parts_.admissions.admit(parts_.identity, std::move(record), request.link_key);
}

JoinServer::Actions JoinServer::refuse_token(WallTime wall, const Origin& origin,
                                             const JoinRequest& request, TokenVerdict verdict) {
  if (verdict == TokenVerdict::expired) {
    return refuse(wall, origin, request, JoinRefusal::token_expired, "the join token has expired");
  }
  if (verdict == TokenVerdict::used_up) {
    return refuse(wall, origin, request, JoinRefusal::token_used_up,
                  "the join token has been used as often as it may be");
  }
  return refuse(wall, origin, request, JoinRefusal::wrong_token, unknown_token());
}

std::string JoinServer::unknown_token() const {
  return "node " + name_of(parts_.identity.id()) + " does not know this join token";
}

// A refusal that only the claimed key's owner can read, of one who proved nothing.
JoinServer::Actions JoinServer::refuse_stranger(const Origin& origin, const JoinRequest& request,
                                                JoinRefusal refusal, std::string detail) {
  ++strangers_;
  JoinAnswer reply;
  reply.refusal = refusal;
  reply.detail = std::move(detail);
  return answer(origin, encode_answer(reply, request, parts_.identity));
}

void JoinServer::count_strangers(Time now, WallTime wall) {
  if (strangers_ == 0 || now < next_count_) return;
  next_count_ = now + kCountTerm;
  audit(wall, "strangers_refused", {{"count", std::to_string(std::exchange(strangers_, 0))}});
}

// The same, of one who has proved a token.
JoinServer::Actions JoinServer::refuse(WallTime wall, const Origin& origin,
                                       const JoinRequest& request, JoinRefusal refusal,
                                       std::string detail) {
  audit(wall, "join_refused",
        {{"node", node_id_of(request.sign_key).text()},
         {"token", to_hex(request.token)},
         {"reason", detail}});
  JoinAnswer reply;
  reply.refusal = refusal;
  reply.detail = std::move(detail);
  return answer(origin, encode_answer(reply, request, parts_.identity));
}

JoinServer::Actions JoinServer::refuse_in_clear(const Origin& origin, JoinRefusal refusal,
                                                std::string_view detail) const {
  return answer(origin, encode_refusal(refusal, detail));
}

JoinServer::Actions JoinServer::answer(const Origin& origin, Bytes frame, bool admitted) const {
  if (origin.via) return {AnswerRelay{*origin.via, origin.number, std::move(frame), admitted}};
  return {Send{origin.number, std::move(frame)}};
}

JoinServer::Actions JoinServer::on_tick(Time now, WallTime wall) {
  const auto late = [now](const auto& waiting) {
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, each] : waiting) {
      if (now >= each.deadline) numbers.push_back(number);
    }
    return numbers;
  };
  count_strangers(now, wall);
  Actions actions;
  for (std::uint64_t number : late(relays_)) append(actions, on_relay_failed(number));
  for (std::uint64_t number : late(checks_)) append(actions, conclude(wall, number, false, {}));
  for (std::uint64_t number : late(wishes_)) append(actions, on_dial_back(wall, number, {}));
  return actions;
}

std::string JoinServer::name_of(const NodeId& node) const {
  auto snapshot = parts_.admissions.snapshot();
  const Standing* standing = snapshot->find(node);
  return (standing == nullptr ? "" : standing->name() + " ") + node.short_text();
}

void JoinServer::audit(WallTime wall, std::string_view event, std::vector<AuditField> fields) {
  if (parts_.audit == nullptr) return;
  if (auto written = parts_.audit->append(wall, event, fields); !written) {
    log::error("security", "the audit log cannot be written: " + written.error().message());
  }
}

}  // namespace gpunode::security
