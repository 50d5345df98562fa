// Questions and answers over bare libzmq with CURVE, and nothing else: the measure for calls. No
// envelope, deadline, directory or second thread of ours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace gpunode::bench {

struct EchoPlace {
  std::string endpoint;
  std::string key;  // the server's, as Z85
};

// Answers everything with itself, on a thread of its own, until the process ends.
EchoPlace serve_echo();

class EchoCaller {
 public:
  explicit EchoCaller(const EchoPlace& place);
  ~EchoCaller();
  // Sends so many bytes and waits for them to come back. False: they did not.
  bool round(std::size_t bytes);

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace gpunode::bench
