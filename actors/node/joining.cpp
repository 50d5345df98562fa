#include "actors/node/joining.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "actors/node/endpoints.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/transport/join_socket.hpp"

namespace gpunode::node {

using security::JoinClient;

namespace {

// The joining side from a token to an admission, against the join port of a member. Blocks. Fails
// with the failure that got furthest: cause and remedy in one text.
Result<JoinClient::Joined> run(JoinClient& client, const Clock& clock) {
  std::unique_ptr<transport::JoinConnection> connection;
  JoinClient::Action action = client.on_start();
  for (;;) {
    if (auto* joined = std::get_if<JoinClient::Joined>(&action)) return std::move(*joined);
    if (auto* failed = std::get_if<JoinClient::Failed>(&action)) return failed->report.error();
    if (auto* dial = std::get_if<JoinClient::Dial>(&action)) {
      connection.reset();
      auto target = parse_host_port(dial->endpoint.substr(dial->endpoint.rfind('/') + 1), 0);
      auto opened =
          target ? transport::JoinConnection::dial(target->host, target->port, dial->deadline)
                 : Result<std::unique_ptr<transport::JoinConnection>>(target.error());
      if (opened) connection = std::move(*opened);
      action = opened ? client.on_dialled() : client.on_dial_failed(opened.error());
      continue;
    }
    auto& ask = std::get<JoinClient::Ask>(action);
    auto answer = connection->ask(ask.frame, ask.deadline);
    action = answer ? client.on_answer(clock.wall(), *answer) : client.on_no_answer(answer.error());
  }
}

}  // namespace

Result<JoinClient::Joined> join_when_let(const security::Identity& identity,
                                         const std::string& token,
                                         const security::JoinRecord& record,
                                         const std::string& endpoint, const Clock& clock) {
  constexpr Duration kLongest = std::chrono::minutes(5), kMost = std::chrono::seconds(8);
  Rng rng(mix(static_cast<std::uint64_t>(clock.now().time_since_epoch().count()),
              static_cast<std::uint64_t>(getpid())));
  const Time until = clock.now() + kLongest;
  for (Duration pause = std::chrono::milliseconds(500);; pause = std::min(2 * pause, kMost)) {
    auto parsed = security::JoinToken::parse(token);
    if (!parsed) return parsed.error();
    auto client = JoinClient::create(identity, std::move(*parsed), record, {endpoint});
    if (!client) return client.error();
    auto joined = run(*client, clock);
    const bool too_many = !joined && joined.error().code == ErrorCode::resource_exhausted;
    if (!too_many || clock.now() >= until) return joined;
    log::warning("node", "waiting to be let in: " + joined.error().detail);
    // Half of it at random: those who were refused together are not to come together again.
    const auto half = static_cast<std::uint64_t>(pause.count() / 2);
    std::this_thread::sleep_for(Duration(half + rng.below(half)));
  }
}

}  // namespace gpunode::node
