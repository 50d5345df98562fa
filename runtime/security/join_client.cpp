#include "runtime/security/join_client.hpp"

#include "runtime/security/detail/join_records.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::security {

namespace {

std::string clock_text(WallTime time) {
  return utc_text(time, "%Y-%m-%d %H:%M:%S UTC");
}

// How far an attempt got: of several endpoints' failures the one that says most is reported.
JoinFailure progress(JoinFailure failure) {
  return std::min(failure, JoinFailure::other_cluster);
}

// Names come from strangers: nothing but printable ASCII reaches a terminal.
std::string shown(std::string_view text) {
  std::string out;
  for (char letter : text) out += letter >= 0x20 && letter < 0x7f ? letter : '?';
  return out;
}

std::string who(const JoinBanner& banner) {
  return "node " + (banner.name.empty() ? "" : shown(banner.name) + " ") + "(" +
         banner.node.short_text() + ")";
}

JoinFailure failure_of(JoinRefusal refusal) {
  constexpr std::pair<JoinRefusal, JoinFailure> kNamed[] = {
      {JoinRefusal::protocol_mismatch, JoinFailure::protocol_mismatch},
      {JoinRefusal::wrong_token, JoinFailure::wrong_token},
      {JoinRefusal::token_expired, JoinFailure::token_expired},
      {JoinRefusal::token_used_up, JoinFailure::token_used_up},
      {JoinRefusal::address_not_reachable, JoinFailure::address_not_reachable},
      {JoinRefusal::issuer_away, JoinFailure::issuer_away},
      {JoinRefusal::issuer_unknown, JoinFailure::issuer_away},
      {JoinRefusal::too_many, JoinFailure::too_many_joins},
      {JoinRefusal::stale_banner, JoinFailure::connection_lost},
      {JoinRefusal::put_out, JoinFailure::put_out},
  };
  for (const auto& [named, failure] : kNamed) {
    if (named == refusal) return failure;
  }
  return JoinFailure::refused;
}

}  // namespace

JoinClient::JoinClient(const Identity& identity, JoinToken token, JoinRecord record,
                       std::vector<std::string> endpoints)
    : identity_(&identity),
      token_(std::move(token)),
      record_(std::move(record)),
      endpoints_(std::move(endpoints)) {}

Result<JoinClient> JoinClient::create(const Identity& identity, JoinToken token, JoinRecord record,
                                      std::vector<std::string> endpoints) {
  if (endpoints.empty()) endpoints = token.endpoints;
  if (endpoints.empty()) {
    return {ErrorCode::invalid_argument,
            "the token names no address; give one: gpunode join <host:port>"};
  }
  JoinRequest trial;
  trial.record = record;
  if (auto frame = encode_request(trial, identity, token); !frame) return frame.error();
  return JoinClient(identity, std::move(token), std::move(record), std::move(endpoints));
}

JoinClient::Action JoinClient::dial() {
  state_ = State::dialling;
  return Dial{endpoint(), kDialTerm};
}

JoinClient::Action JoinClient::fail(JoinFailure failure, std::string detail) {
  state_ = State::finished;
  return Failed{{failure, endpoint(), std::move(detail)}};
}

// Tries the next endpoint; after the last one reports the failure that got furthest.
JoinClient::Action JoinClient::next_endpoint(JoinFailure failure, std::string detail) {
  JoinReport report{failure, endpoint(), std::move(detail)};
  if (!best_ || progress(failure) > progress(best_->failure)) best_ = std::move(report);
  if (at_ + 1 < endpoints_.size()) {
    ++at_;
    return dial();
  }
  state_ = State::finished;
  return Failed{*best_};
}

JoinClient::Action JoinClient::on_dialled() {
  state_ = State::greeting;
  JoinHello hello;
  hello.issuer = token_.issuer;
  return Ask{encode_hello(hello), kBannerTerm};
}

JoinClient::Action JoinClient::on_dial_failed(const Error& error) {
  switch (error.code) {
    case ErrorCode::not_found:
      return next_endpoint(JoinFailure::name_not_resolved,
                           "the name in " + endpoint() + " does not resolve");
    case ErrorCode::unavailable:
      return next_endpoint(JoinFailure::port_shut, "nothing listens at " + endpoint());
    case ErrorCode::timeout:
      return next_endpoint(JoinFailure::no_answer, endpoint() + " does not answer at all");
    case ErrorCode::protocol_mismatch:
      return next_endpoint(JoinFailure::not_a_gpunode,
                           "what listens at " + endpoint() + " is no join port of a gpunode");
    default:
      return next_endpoint(JoinFailure::no_answer, endpoint() + ": " + error.detail);
  }
}

JoinClient::Action JoinClient::on_no_answer(const Error& error) {
  if (state_ == State::greeting) {
    return next_endpoint(JoinFailure::not_a_gpunode,
                         "what listens at " + endpoint() + " does not greet as a gpunode does");
  }
  return fail(JoinFailure::connection_lost,
              "the connection to " + endpoint() + " ended before the answer: " + error.detail);
}

JoinClient::Action JoinClient::on_answer(WallTime wall, ByteView frame) {
  return state_ == State::asking ? finish(frame) : greet(wall, frame);
}

JoinClient::Action JoinClient::greet(WallTime wall, ByteView frame) {
  if (frame_kind(frame) == JoinFrame::answer) {  // refused before it greets
    auto answer = decode_answer(frame, *identity_, token_.issuer, Nonce{});
    if (answer) return refused_by(*answer);
  }
  auto banner = decode_banner(frame);
  if (!banner) {
    return next_endpoint(JoinFailure::not_a_gpunode,
                         "what listens at " + endpoint() + " is no join port of a gpunode");
  }
  if (auto report = objection(*banner, wall)) {
    return next_endpoint(report->failure, std::move(report->detail));
  }
  state_ = State::asking;
  request_ = {};
  request_.nonce = random_array<32>();
  request_.banner_nonce = banner->nonce;
  request_.record = record_;
  auto request = encode_request(request_, *identity_, token_);
  if (!request) return fail(JoinFailure::refused, request.error().detail);
  return Ask{std::move(*request), kAnswerTerm};
}

std::optional<JoinReport> JoinClient::objection(const JoinBanner& banner, WallTime wall) const {
  auto report = [&](JoinFailure failure, std::string detail) {
    return JoinReport{failure, endpoint(), std::move(detail)};
  };
  if (banner.version_min > kJoinVersion || banner.version_max < kJoinVersion) {
    return report(JoinFailure::protocol_mismatch,
                  "the node at " + endpoint() + " speaks join protocol " +
                      std::to_string(banner.version_min) + " to " +
                      std::to_string(banner.version_max) + ", this node speaks " +
                      std::to_string(kJoinVersion));
  }
  if (banner.cluster_hash != token_.cluster.public_hash()) {
    return report(JoinFailure::other_cluster,
                  who(banner) + " at " + endpoint() + " is in another cluster than the token");
  }
  if (std::chrono::abs(banner.clock - wall) > kMaxSkew) {
    return report(JoinFailure::clock_skew, "the clocks are more than 5 minutes apart: here it is " +
                                               clock_text(wall) + ", at " + endpoint() + " " +
                                               clock_text(banner.clock));
  }
  if (banner.clock >= token_.expires) {
    return report(JoinFailure::token_expired,
                  "the join token expired at " + clock_text(token_.expires));
  }
  if (banner.issuer == IssuerState::put_out)
    return report(JoinFailure::wrong_token,
                  "the node that made the token (" + token_.issuer.short_text() +
                      ") was put out of the cluster, and its tokens admit nobody any more");
  if (banner.issuer == IssuerState::away || banner.issuer == IssuerState::unknown) {
    return report(JoinFailure::issuer_away,
                  "the node that made the token (" + token_.issuer.short_text() + ") is " +
                      (banner.issuer == IssuerState::away ? "away" : "not known") + " to " +
                      who(banner));
  }
  return std::nullopt;
}

JoinClient::Action JoinClient::finish(ByteView frame) {
  auto answer = decode_answer(frame, *identity_, token_.issuer, request_.nonce);
  if (!answer)
    return fail(JoinFailure::refused, "the answer is not valid: " + answer.error().detail);
  if (answer->refusal != JoinRefusal::none) return refused_by(*answer);
  const Admission& own = answer->admission;
  if (own.node != identity_->id()) {
    return fail(JoinFailure::refused, "the answer admits another node than this one");
  }
  answer->credentials.admissions.push_back(own);
  answer->credentials.link_keys.push_back(identity_->link_key());
  Admissions chain(token_.cluster);
  auto merged = chain.merge(answer->credentials);
  if (!merged || chain.snapshot()->find(own.node) == nullptr) {
    return fail(JoinFailure::refused,
                "the admission does not lead back to the founder of the cluster");
  }
  state_ = State::finished;
  return Joined{token_.cluster, std::move(*answer)};
}

JoinClient::Action JoinClient::refused_by(const JoinAnswer& answer) {
  std::string detail = shown(answer.detail);
  if (detail.empty()) detail = "the node at " + endpoint() + " refuses";
  JoinFailure failure = failure_of(answer.refusal);
  bool elsewhere = failure == JoinFailure::issuer_away || failure == JoinFailure::too_many_joins;
  return elsewhere ? next_endpoint(failure, std::move(detail)) : fail(failure, std::move(detail));
}

}  // namespace gpunode::security
