#include "tools/bench/peers/http_echo.hpp"

#ifdef GPUNODE_BENCH_HTTPLIB
#include <httplib.h>

#include <thread>

namespace gpunode::bench {

int serve_http_echo() {
  auto* server = new httplib::Server;  // its threads use it to the end
  server->set_tcp_nodelay(true);
  server->set_keep_alive_max_count(1'000'000'000);
  server->set_keep_alive_timeout(600);
  server->Post("/echo", [](const httplib::Request& request, httplib::Response& answer) {
    answer.set_content(request.body, "application/json");
  });
  const int port = server->bind_to_any_port("127.0.0.1");
  std::thread([server] { server->listen_after_bind(); }).detach();
  return port;
}

}  // namespace gpunode::bench
#else
namespace gpunode::bench {

int serve_http_echo() {
  return 0;
}

}  // namespace gpunode::bench
#endif
