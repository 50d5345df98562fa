// A process of its own for what may hang or take the process along that it runs in: NCCL, and the
// driver below it. It is started for one device group and ends with it, by SIGKILL; it also ends
// when this process does. Owned and asked by one thread; end() from any. Costs a process, two
// descriptors; asking costs two wake-ups.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/carrier/carrier_protocol.hpp"
#include "runtime/carrier/frame_socket.hpp"

namespace gpunode::carrier {

// Where `gpunode-carrier` is: as GPUNODE_CARRIER says, else beside this program, else where
// gpunode's installation put it. Fails with: unsupported (names the places).
Result<std::string> find_carrier();

class CarrierProcess {
 public:
  // `settings`: environment variables as "NAME=value", in place of this process's own. Touches no
  // signal handler of this process. Fails with: unsupported (it cannot be started),
  // resource_exhausted.
  static Result<std::unique_ptr<CarrierProcess>> start(const std::string& program,
                                                       const std::vector<std::string>& settings);
  ~CarrierProcess();
  CarrierProcess(const CarrierProcess&) = delete;
  CarrierProcess& operator=(const CarrierProcess&) = delete;

  // Sends an order and waits for its answer. Fails with: unavailable (the carrier's own words, how
  // it ended, or the reason given to end()), timeout. It is ended after every failure but that of
  // an order that it answered.
  Result<Bytes> ask(Order order, Bytes body, std::chrono::milliseconds timeout);
  // Kills it, from any thread; a call under way fails soon, later ones at once. The first reason
  // stands.
  void end(const std::string& reason);
  bool ended();

  // Ends the process and calls `then` once nothing of it is left: now, or where a driver holds it
  // longer than some seconds, when a later one is started or buried.
  static void bury(std::unique_ptr<CarrierProcess> process, std::function<void()> then);

 private:
  explicit CarrierProcess(Descriptor socket) : socket_(std::move(socket)) {}
  Result<void> spawn(const std::string& program, const std::vector<std::string>& settings,
                     int control);
  Error broken(const Error& cause);
  bool reap(std::chrono::milliseconds timeout);

  FrameSocket socket_;
  std::mutex mutex_;                    // of what is below
  pid_t pid_ = -1;                      // -1: reaped
  int status_ = -1;                     // as waitpid() gives it; -1: not known
  std::string reason_;                  // of its end; empty: it lives
  std::unique_ptr<Descriptor> handle_;  // of the process, whoever reaps it; null: an old kernel
};

}  // namespace gpunode::carrier
