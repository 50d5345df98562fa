#include "actors/inference/detail/part_orders.hpp"

#include <caf/send.hpp>

#include <future>
#include <utility>

#include "actors/inference/detail/model_book.hpp"
#include "actors/inference/detail/part_actor.hpp"
#include "actors/inference/part_name.hpp"

namespace gpunode::inference {
namespace {

// Who calls hears of it by its end, at the timeout at the latest; beyond this the node itself is ending.
constexpr auto kBeyondTimeout = std::chrono::seconds(2);
constexpr auto kTellWithin = std::chrono::seconds(5);

std::vector<NodeId> holders_of(const ClusterSnapshot& cluster, const std::string& model,
                               const PartName& part) {
  const std::string served = served_name(model, {part.number, part.of});
  std::vector<NodeId> holders;  // whatever number they give it
  for (const OfferedVersion& offer : offered_versions(cluster, served))
    if (offer.version.digest == part.digest.text())
      holders.insert(holders.end(), offer.holders.begin(), offer.holders.end());
  return holders;
}

CallRequest call_of(const NodeId& node, SharedBytes request, Duration timeout) {
  return {
      .to = node, .name = kPartCall, .request = std::move(request), .timeout = timeout, .done = {}};
}

Result<SharedBytes> ask(const caf::actor& calls, const NodeId& node, SharedBytes request,
                        Duration timeout) {
  auto promise = std::make_shared<std::promise<Result<SharedBytes>>>();
  std::future<Result<SharedBytes>> answer = promise->get_future();
  CallRequest call = call_of(node, std::move(request), timeout);
  call.done = [promise = std::exchange(promise, nullptr)](Result<SharedBytes> result) {
    promise->set_value(std::move(result));
  };
  caf::anon_send(calls, std::move(call));
  if (answer.wait_for(timeout + kBeyondTimeout) != std::future_status::ready)
    return Error{ErrorCode::timeout, "it has not answered in time"};
  try {
    return answer.get();
  } catch (const std::future_error&) {  // nobody will ever answer
    return Error{ErrorCode::cancelled, "this node is ending"};
  }
}

void tell(const caf::actor& calls, const NodeId& node, SharedBytes message) {
  CallRequest call = call_of(node, std::move(message), kTellWithin);
  call.done = [](const Result<SharedBytes>&) {};
  caf::anon_send(calls, std::move(call));
}

}  // namespace

PartAccess part_access(const ServingOptions& options, const std::string& model) {
  const ClusterState* cluster = options.cluster;
  return {
      .holders = [cluster, model](
                     const PartName& part) { return holders_of(*cluster->read(), model, part); },
      .ask = [calls = options.calls](
                 const NodeId& node, SharedBytes request,
                 Duration timeout) { return ask(calls, node, std::move(request), timeout); },
      .tell = [calls = options.calls](
                  const NodeId& node,
                  SharedBytes message) { tell(calls, node, std::move(message)); },
      .name_of = [cluster](const NodeId& node) { return cluster->read()->name_of(node); }};
}

std::vector<std::string> missing_parts(const ClusterSnapshot& cluster, const std::string& model,
                                       const std::string& part, const std::string& digest) {
  std::vector<std::string> missing;
  if (part.empty() || names_part(model)) return missing;
  const auto parsed = storage::Sha256::parse(digest);
  const auto of = static_cast<std::uint32_t>(part_of_text(part)->of);
  for (std::uint32_t number = 1; number < of; ++number) {
    const PartName other{*parsed, number, of};
    if (holders_of(cluster, model, other).empty()) missing.push_back(other.text());
  }
  return missing;
}

}  // namespace gpunode::inference
