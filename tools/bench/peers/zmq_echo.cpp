#include "tools/bench/peers/zmq_echo.hpp"

#include <zmq.h>

#include <cstdlib>
#include <cstring>
#include <thread>

namespace gpunode::bench {

namespace {

void* made(void* object) {
  if (!object) std::abort();
  return object;
}

}  // namespace

struct EchoCaller::Sockets {
  void* context = made(zmq_ctx_new());
  void* socket = made(zmq_socket(context, ZMQ_DEALER));
};

EchoPlace serve_echo() {
  char open[41], secret[41];
  zmq_curve_keypair(open, secret);
  void* context = made(zmq_ctx_new());
  void* socket = made(zmq_socket(context, ZMQ_DEALER));
  const int yes = 1;
  zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof yes);
  zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, sizeof secret);
  if (zmq_bind(socket, "tcp://127.0.0.1:*") != 0) std::abort();
  char endpoint[128];
  std::size_t size = sizeof endpoint;
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size);
  std::thread([socket] {
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (zmq_msg_recv(&message, socket, 0) >= 0) zmq_msg_send(&message, socket, 0);
  }).detach();
  return {endpoint, open};
}

EchoCaller::EchoCaller(const EchoPlace& place) : sockets_(std::make_unique<Sockets>()) {
  char open[41], secret[41];
  zmq_curve_keypair(open, secret);
  void* socket = sockets_->socket;
  const int timeout_ms = 10'000, linger = 0;
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
  zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, place.key.c_str(), 41);
  zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, open, sizeof open);
  zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, sizeof secret);
  if (zmq_connect(socket, place.endpoint.c_str()) != 0) std::abort();
}

EchoCaller::~EchoCaller() {
  zmq_close(sockets_->socket);
  zmq_ctx_term(sockets_->context);
}

bool EchoCaller::round(std::size_t bytes) {
  zmq_msg_t message;
  zmq_msg_init_size(&message, bytes);
  std::memset(zmq_msg_data(&message), 'x', bytes);
  const bool sent = zmq_msg_send(&message, sockets_->socket, 0) >= 0;
  const bool back = sent && zmq_msg_recv(&message, sockets_->socket, 0) >= 0;
  const bool whole = back && zmq_msg_size(&message) == bytes;
  zmq_msg_close(&message);
  return whole;
}

}  // namespace gpunode::bench
