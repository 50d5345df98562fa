// A library with NCCL's names and no GPU behind it: the ranks of a group find each other by abstract
// Unix sockets named in the unique id, and send and receive over them. Where a peer is gone a call
// never comes back, as NCCL's may. From the environment:
//   FAKE_NCCL_FAIL     "function=code": that function, or the communicator, has this error
//   FAKE_NCCL_VERSION  the version it says it has; 22809 without
//   FAKE_NCCL_REACHED  a file, a named pipe say, that is written a byte when a group is carried out
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5;
constexpr int kMicrosecondsToWait = 500;

struct Id {
  char internal[128];
};
struct Piece {
  char* place;
  std::size_t bytes;
};
struct Comm {
  int rank = 0, size = 1;
  std::map<int, int> to, from;  // peer: socket
};

struct Queued {
  Comm* comm = nullptr;
  std::map<int, std::vector<Piece>> sends, receives;
};
Queued queued;
bool in_group = false;

int failing(const char* function) {
  const char* told = std::getenv("FAKE_NCCL_FAIL");
  const std::string start = std::string(function) + "=";
  return told && std::strncmp(told, start.c_str(), start.size()) == 0
             ? std::atoi(told + start.size())
             : 0;
}

[[noreturn]] void hang() {
  for (;;) pause();
}

sockaddr_un address_of(const char* group, int rank, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%.64s-%d", group, rank);
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                 static_cast<std::size_t>(length));
  return address;
}

void transfer(int socket, Piece piece, bool sends) {
  while (piece.bytes > 0) {
    const ssize_t done = sends ? send(socket, piece.place, piece.bytes, MSG_NOSIGNAL)
                               : recv(socket, piece.place, piece.bytes, 0);
    if (done <= 0) hang();
    piece.place += done;
    piece.bytes -= static_cast<std::size_t>(done);
  }
}

int connect_to(const char* group, int rank, std::uint32_t mine) {
  socklen_t bytes = 0;
  const sockaddr_un address = address_of(group, rank, bytes);
  const int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  while (connect(end, reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    usleep(kMicrosecondsToWait);
  transfer(end, {reinterpret_cast<char*>(&mine), sizeof mine}, true);
  return end;
}

// What a rank sends to itself; false: the two do not meet.
bool move_to_itself(std::vector<Piece>& from, std::vector<Piece>& to) {
  if (from.size() != to.size()) return false;
  for (std::size_t at = 0; at < from.size(); ++at) {
    if (from[at].bytes != to[at].bytes) return false;
    std::memmove(to[at].place, from[at].place, from[at].bytes);
  }
  return true;
}

// Lengths go first, so that spans that do not meet are found.
void exchange(int socket, const std::vector<Piece>& pieces, bool sends) {
  for (const Piece& piece : pieces) {
    std::uint64_t bytes = piece.bytes;
    transfer(socket, {reinterpret_cast<char*>(&bytes), sizeof bytes}, sends);
    if (bytes != piece.bytes) hang();
    transfer(socket, piece, sends);
  }
}

void say_reached() {
  const char* path = std::getenv("FAKE_NCCL_REACHED");
  if (!path) return;
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (write(file, "x", 1) != 1) hang();
  close(file);
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const char* told = std::getenv("FAKE_NCCL_VERSION");
  *version = told ? std::atoi(told) : 22809;
  return failing("ncclGetVersion");
}
int ncclGetUniqueId(Id* id) {
  static int made = 0;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "gpunode-fake-nccl-%d-%d", getpid(), ++made);
  return failing("ncclGetUniqueId");
}
int ncclCommInitRank(Comm** made, int size, Id id, int rank) {
  if (const int code = failing("ncclCommInitRank")) return code;
  if (size < 1 || rank < 0 || rank >= size || id.internal[127] != '\0') return kInvalidArgument;
  auto* comm = new Comm{rank, size, {}, {}};
  socklen_t bytes = 0;
  const sockaddr_un address = address_of(id.internal, rank, bytes);
  const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(door, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(door, size) != 0)
    return kSystemError;
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank)
      comm->to[peer] = connect_to(id.internal, peer, static_cast<std::uint32_t>(rank));
  for (int count = 1; count < size; ++count) {
    const int end = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    std::uint32_t peer = 0;
    transfer(end, {reinterpret_cast<char*>(&peer), sizeof peer}, false);
    comm->from[static_cast<int>(peer)] = end;
  }
  close(door);
  *made = comm;
  return 0;
}
int ncclGroupStart() {
  in_group = true;
  queued = {};
  return failing("ncclGroupStart");
}
int ncclSend(const void* from, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  if (!in_group || type != 0 || !stream || peer < 0 || peer >= comm->size) return kInvalidArgument;
  queued.comm = comm;
  queued.sends[peer].push_back({static_cast<char*>(const_cast<void*>(from)), count});
  return failing("ncclSend");
}
int ncclRecv(void* to, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  if (!in_group || type != 0 || !stream || peer < 0 || peer >= comm->size) return kInvalidArgument;
  queued.comm = comm;
  queued.receives[peer].push_back({static_cast<char*>(to), count});
  return failing("ncclRecv");
}
int ncclGroupEnd() {
  if (const int code = failing("ncclGroupEnd")) return code;
  in_group = false;
  say_reached();
  if (!queued.comm) return 0;
  const int rank = queued.comm->rank;
  if (!move_to_itself(queued.sends[rank], queued.receives[rank])) return kInvalidUsage;
  std::vector<std::thread> threads;
  for (const bool sends : {true, false})
    for (const auto& [peer, pieces] : sends ? queued.sends : queued.receives)
      if (peer != rank) {
        const int socket = sends ? queued.comm->to.at(peer) : queued.comm->from.at(peer);
        threads.emplace_back([socket, &list = pieces, sends] { exchange(socket, list, sends); });
      }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
int ncclCommGetAsyncError(Comm*, int* state) {
  *state = failing("communicator");
  return 0;
}
const char* ncclGetErrorString(int code) {
  return code == 6 ? "remote process exited or there was a network error"
                   : "unhandled system error";
}
const char* ncclGetLastError(Comm*) {
  return "told by the fake";
}
}
