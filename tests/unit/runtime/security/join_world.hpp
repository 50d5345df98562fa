// A small cluster for the tests of joining: a founder that issues tokens, a member that relays, and
// a joiner; no sockets, one fake clock, disks in memory. Owner: one test.
#pragma once

#include "runtime/security/join_client.hpp"
#include "runtime/security/join_server.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>

namespace gpunode::security {

using testing::FaultFileSystem;
using testing::MemoryFileSystem;

inline constexpr std::string_view kAddress = "10.0.0.9";

struct Node {
  MemoryFileSystem disk;
  FaultFileSystem files{disk};
  Identity identity = Identity::create();
  std::unique_ptr<Admissions> admissions;
  std::unique_ptr<TokenBook> tokens;
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<JoinServer> server;
  std::set<NodeId> up;
  std::vector<NodeId> others;      // named to who joins
  std::vector<std::string> allow;  // may be dialled back, by start()

  Node() { EXPECT_TRUE(disk.create_folder("/state")); }
  void start(const ClusterIdentity& cluster, std::string name) {
    auto list = Admissions::open(files, "/state", cluster);
    auto book = TokenBook::open(files, "/state");
    auto log = AuditLog::open(files, "/state", identity);
    ASSERT_TRUE(list && book && log);
    admissions = std::move(*list);
    tokens = std::make_unique<TokenBook>(std::move(*book));
    audit = std::make_unique<AuditLog>(std::move(*log));
    server = std::make_unique<JoinServer>(JoinServer::Parts{
        identity, *admissions, *tokens, audit.get(), std::move(name),
        [this](const NodeId& node) { return up.contains(node); },
        [this](std::optional<NodeId>, std::size_t most) {
          JoinServer::Seeds seeds{{}, to_bytes(as_bytes("members"))};
          for (const NodeId& node : others)
            if (seeds.nodes.size() < most) seeds.nodes.push_back(node);
          return seeds;
        },
        *IpRanges::parse(allow), [] { return std::vector<std::string>{"10.0.0.1"}; }});
  }
};

// A founder that issues tokens, and a second member that relays.
struct World {
  FakeClock clock;
  Node founder, member, joiner;
  ClusterIdentity cluster{{random_array<16>()}, founder.identity.id()};
  JoinRecord record{"third", {}, false, {"zone=a"}};
  bool dial_back_works = true;
  std::vector<std::string> dialled;
  JoinServer::Actions outcomes;  // of a dial of the relay's, at the founder
  std::vector<Admission> told;

  World() {
    founder.start(cluster, "first");
    EXPECT_TRUE(founder.admissions->found(founder.identity, "first", clock.wall()));
    Admission second;
    second.node = member.identity.id();
    second.sign_key = member.identity.sign_key();
    second.name = "second";
    second.issued = clock.wall();
    EXPECT_TRUE(founder.admissions->admit(founder.identity, second, member.identity.link_key()));
    member.start(cluster, "second");
    EXPECT_TRUE(member.admissions->merge(founder.admissions->all()));
    member.up.insert(founder.identity.id());
  }

  JoinToken token(std::uint32_t uses = 1, Rights rights = kRightsDefault) {
    auto token =
        founder.tokens->create({std::chrono::minutes(15), uses, {"tcp://10.0.0.1:7600"}, rights},
                               cluster, founder.identity, clock.wall());
    EXPECT_TRUE(token);
    return std::move(*JoinToken::parse(token->text()));
  }

  // What the caller of `node` gets for a frame; nothing when the node gives no answer.
  std::optional<Bytes> ask(Node& node, ByteView frame, std::string_view address = kAddress) {
    return settle(node, node.server->on_frame(clock.now(), clock.wall(), 7, address, frame));
  }

  std::optional<Bytes> settle(Node& node, JoinServer::Actions actions, bool* is_new = nullptr) {
    std::optional<Bytes> out;
    for (std::size_t at = 0; at < actions.size(); ++at) {
      JoinServer::Action action = actions[at];
      auto more = [&](JoinServer::Actions next) {
        actions.insert(actions.end(), next.begin(), next.end());
      };
      if (auto* send = std::get_if<JoinServer::Send>(&action)) {
        EXPECT_EQ(send->exchange, 7u);
        out = send->frame;
      } else if (auto* relay = std::get_if<JoinServer::Relay>(&action)) {
        EXPECT_EQ(relay->issuer, founder.identity.id());
        bool is_new = false;
        auto answer =
            settle(founder,
                   founder.server->on_relayed(clock.now(), clock.wall(), node.identity.id(),
                                              relay->relay, relay->frame),
                   &is_new);
        if (!answer) continue;
        EXPECT_TRUE(
            node.server->on_relay_answer(joiner.identity.id(), relay->relay, *answer, is_new)
                .empty())
            << "nobody but the issuer answers";
        more(node.server->on_relay_answer(founder.identity.id(), relay->relay, *answer, is_new));
      } else if (auto* back = std::get_if<JoinServer::AnswerRelay>(&action)) {
        EXPECT_EQ(back->via, member.identity.id());
        out = back->frame;
        if (is_new) *is_new = back->admitted;
      } else if (auto* dial = std::get_if<JoinServer::DialBack>(&action)) {
        dialled.insert(dialled.end(), dial->endpoints.begin(), dial->endpoints.end());
        more(node.server->on_dial_back(clock.wall(), dial->check,
                                       dial_back_works ? dial->endpoints.front() : ""));
      } else if (auto* wish = std::get_if<JoinServer::DialWish>(&action)) {
        EXPECT_EQ(wish->via, member.identity.id());
        settle(member, member.server->on_dial_wish(clock.now(), node.identity.id(), wish->relay,
                                                   wish->endpoints));
        more(std::move(outcomes));
        outcomes.clear();
      } else if (auto* outcome = std::get_if<JoinServer::DialOutcome>(&action)) {
        outcomes = founder.server->on_dial_outcome(clock.wall(), node.identity.id(), outcome->relay,
                                                   outcome->reached, outcome->seen_from);
      } else if (auto* admitted = std::get_if<JoinServer::Admitted>(&action)) {
        told.push_back(admitted->admission);
      }
    }
    return out;
  }

  JoinClient client(JoinToken token, std::vector<std::string> endpoints = {}) {
    auto client = JoinClient::create(joiner.identity, std::move(token), record, endpoints);
    EXPECT_TRUE(client);
    return std::move(*client);
  }
  // Runs a client against one node until it is finished.
  JoinClient::Action run(JoinClient& client, Node& node) {
    JoinClient::Action action = client.on_start();
    while (!client.finished()) {
      if (std::holds_alternative<JoinClient::Dial>(action)) {
        action = client.on_dialled();
      } else {
        auto answer = ask(node, std::get<JoinClient::Ask>(action).frame);
        action = answer ? client.on_answer(clock.wall(), *answer)
                        : client.on_no_answer({ErrorCode::timeout, "no answer"});
      }
    }
    return action;
  }
  JoinClient::Action join(JoinToken token, Node& node) {
    JoinClient joining = client(std::move(token));
    return run(joining, node);
  }
};

inline std::string outcome(const JoinClient::Action& action) {
  if (std::holds_alternative<JoinClient::Joined>(action)) return "joined";
  if (auto* failed = std::get_if<JoinClient::Failed>(&action)) {
    return std::string(to_string(failed->report.failure));
  }
  return "unfinished";
}

inline std::string sentence(const JoinClient::Action& action) {
  auto* failed = std::get_if<JoinClient::Failed>(&action);
  return failed ? failed->report.message() : "";
}

}  // namespace gpunode::security
