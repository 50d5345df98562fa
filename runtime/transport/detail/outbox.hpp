// What waits for one peer on one lane, on its way from any thread to the lane's. One lock a peer:
// who sends to one does not wait for who sends to another.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "runtime/base/result.hpp"
#include "runtime/transport/detail/send_queue.hpp"

namespace gpunode::transport::detail {

inline std::size_t size_of(const Message& message) {
  return message.body.size() + message.payload.size();
}

class Outbox {
 public:
  // A message over the limit of bytes is taken where nothing else waits.
  struct Limits {
    std::size_t messages;
    std::size_t bytes;  // that wait or are being written
  };
  explicit Outbox(Limits limits) : limits_(limits) {}

  // Sends a message on the thread that brought it; false: it has to wait for the lane's thread.
  // Called under this outbox's lock.
  using Direct = std::function<bool(const Message&)>;

  // How far a message came that the thread which brought it has begun to write: through; a rest is
  // for the lane's thread; not begun, as much is before it.
  enum class Written { all, rest, nothing };
  using Write = std::function<Written(const Message&)>;
  struct Pushed {
    bool taken = false;  // else the message is as it was
    bool wakes = false;  // the lane's thread is to be woken
  };

  // Any thread. True: the lane's thread is to be woken. Where nothing waits and there is a direct
  // way, the message is gone before this returns, unless from a thread of low priority. What equals
  // a message with an order that still waits goes out as that one. Fails with unavailable,
  // resource_exhausted; they name `to`.
  Result<bool> push(const NodeId& to, Message message);
  // Any thread, for a short message that somebody waits for. Is it soon away, it is taken: written by
  // this thread where it may and nobody else writes, while what others bring waits behind it.
  Pushed push_soon(const Message& message, bool writes);
  // True: so many found no session that one is to be opened. Each time it takes twice as many.
  bool misses_session();
  // May messages wait without a session? On bulk they do while control is up: they open one.
  void wait_without_session(bool may);
  bool may_wait_without_session() const;
  bool empty() const;
  // Something waits for a session, or would be sooner away with one.
  bool wants_session() const;

  // The lane's thread. Before it takes: false while another thread writes, which wakes it if there is
  // more to do.
  bool hold();
  // Says that the message before is through; none: the next push wakes.
  std::optional<Message> take();
  void put_back(Message message);
  // There is no session to flush into: the next push wakes. True: something waits for one.
  bool rest();
  // There is a session: what waits and what comes may be sent. Its flush counts as posted.
  void open(Direct direct = {}, Write write = {});
  // It is gone: throws away what waits and what is half sent.
  void reset();

 private:
  // What may lie before a message that is to be soon away.
  static constexpr std::size_t kSoonBytes = 64 << 10;
  static constexpr std::uint32_t kFirstMisses = 16;

  const Limits limits_;
  mutable std::mutex mutex_;
  SendQueue queue_;
  Direct direct_;
  bool open_ = false;
  bool waits_without_session_ = false;
  enum class Writer { nobody, lane, sender } writer_ = Writer::nobody;
  Write write_;
  std::uint64_t sessions_ = 0;
  bool wanted_ = false;
  std::uint32_t missed_ = 0, misses_ = kFirstMisses;
  std::size_t bytes_ = 0;
  std::size_t taken_bytes_ = 0;  // the part of bytes_ that the message taken last has
};

}  // namespace gpunode::transport::detail
