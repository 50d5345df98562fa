#include "actors/node/join_flow.hpp"

#include <optional>

#include "actors/node/endpoints.hpp"
#include "runtime/transport/join_socket.hpp"

namespace gpunode::node {

using security::JoinClient;

Result<JoinClient::Joined> join_cluster(const security::Identity& identity, const JoinOrder& order,
                                        const Clock& clock) {
  auto place = parse_host_port(order.address, kDefaultPort + 2);
  if (!place) return place.error().within("join");
  auto token = security::JoinToken::parse(order.token);
  if (!token) return token.error();
  auto client =
      JoinClient::create(identity, std::move(*token), order.record, {tcp_endpoint(*place)});
  if (!client) return client.error();
  std::unique_ptr<transport::JoinConnection> connection;
  JoinClient::Action action = client->on_start();
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
      action = opened ? client->on_dialled() : client->on_dial_failed(opened.error());
      continue;
    }
    auto& ask = std::get<JoinClient::Ask>(action);
    auto answer = connection->ask(ask.frame, ask.deadline);
    action =
        answer ? client->on_answer(clock.wall(), *answer) : client->on_no_answer(answer.error());
  }
}

}  // namespace gpunode::node
