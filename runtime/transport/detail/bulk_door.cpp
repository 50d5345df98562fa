#include "runtime/transport/detail/bulk_door.hpp"

#include <poll.h>

#include <cerrno>
#include <cstring>

namespace gpunode::transport::detail {

namespace {

constexpr Duration kTicketDeadline = std::chrono::seconds(3);
constexpr Duration kTestTimeout = std::chrono::seconds(5);

}  // namespace

Result<void> BulkDoor::listen(const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    auto listening = listen_tcp(endpoint);
    if (!listening) return listening.error();
    acceptors_.push_back(std::make_unique<Acceptor>(
        reactor_, *listening, allowed_,
        [this](int fd, const IpAddress& from) { take_knock(fd, from); }));
    system_pacing_ = take_off_pacing(listening->fd);
    endpoints_.push_back(listening->endpoint);
  }
  return {};
}

void BulkDoor::start() {
  for (const auto& acceptor : acceptors_) acceptor->start();
}

void BulkDoor::close() {
  while (!knocks_.empty()) drop_knock(knocks_.begin()->first);
  acceptors_.clear();
}

bool BulkDoor::show_ticket(int fd, const std::string& ticket) {
  TicketFrame frame;
  frame.length = static_cast<std::uint16_t>(ticket.size());
  if (ticket.size() > sizeof frame.ticket) return false;
  std::memcpy(frame.ticket, ticket.data(), ticket.size());
  return ::send(fd, &frame, sizeof frame, MSG_NOSIGNAL) == ssize_t{sizeof frame};
}

void BulkDoor::take_knock(int fd, const IpAddress& from) {
  const std::uint64_t number = next_knock_++;
  Knock& knock = knocks_[number];
  knock.fd = share_descriptor(fd);
  knock.watch =
      reactor_.watch(fd, Reactor::Wanted::reading, [this, number] { service_knock(number); });
  reactor_.after(kTicketDeadline, [this, number] { drop_knock(number); });
  if (const auto one = quota_.enter(number, from)) drop_knock(*one);
}

void BulkDoor::service_knock(std::uint64_t number) {
  auto found = knocks_.find(number);
  if (found == knocks_.end()) return;
  Knock& knock = found->second;
  // Not one byte more than the ticket: what is behind it belongs to the stream.
  while (knock.filled < knock.shown.size()) {
    const ssize_t got = ::recv(*knock.fd, knock.shown.data() + knock.filled,
                               knock.shown.size() - knock.filled, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return drop_knock(number);
    knock.filled += static_cast<std::size_t>(got);
  }
  judge(number);
}

void BulkDoor::judge(std::uint64_t number) {
  auto knock = knocks_.extract(number);
  quota_.leave(number);
  reactor_.unwatch(knock.mapped().watch);
  TicketFrame frame, expected;
  std::memcpy(&frame, knock.mapped().shown.data(), sizeof frame);
  std::optional<security::TicketOwner> owner;
  if (std::memcmp(frame.magic, expected.magic, sizeof frame.magic) == 0 &&
      frame.version == expected.version && frame.length <= sizeof frame.ticket)
    owner = tickets_.redeem({frame.ticket, frame.length}, reactor_.now());
  if (!owner) {
    ++refused_;
    return;
  }
  pace_unless_local(*knock.mapped().fd, system_pacing_);
  admit_(std::move(knock.mapped().fd), *owner);
}

void BulkDoor::drop_knock(std::uint64_t number) {
  auto found = knocks_.find(number);
  if (found == knocks_.end()) return;
  ++refused_;
  reactor_.unwatch(found->second.watch);
  quota_.leave(number);
  knocks_.erase(found);
}

Result<void> BulkDoor::test() const {
  if (endpoints_.empty()) return {};
  const std::string endpoint = reachable(endpoints_.front());
  const auto target = parse_endpoint(endpoint);
  const auto address = target ? numeric_address(*target) : std::nullopt;
  if (!address) return {ErrorCode::internal, endpoint + " is no address"};
  auto connected = connect_within(*address, endpoint, kTestTimeout);
  if (!connected) return connected.error();
  const SharedDescriptor stranger = share_descriptor(*connected);
  pollfd waiting{*stranger, POLLIN, 0};
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(kTestTimeout).count();
  if (!show_ticket(*stranger, "") || ::poll(&waiting, 1, static_cast<int>(timeout)) != 1)
    return {ErrorCode::internal, "the door of " + endpoint + " does not answer"};
  std::byte answer;
  if (::recv(*stranger, &answer, 1, 0) > 0)
    return {ErrorCode::internal, "the door of " + endpoint + " lets strangers in"};
  return {};
}

}  // namespace gpunode::transport::detail
