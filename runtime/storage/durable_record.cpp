#include "runtime/storage/durable_record.hpp"

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "runtime/base/digest.hpp"

namespace gpunode::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "a header lies in memory as in the file");

struct Header {
  std::array<char, 4> magic{};
  std::uint32_t version = 0;
  std::uint64_t length = 0;
  Digest digest;
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

ByteView bytes_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1));
}

Digest digest_of_record(const Header& header, ByteView payload) {
  DigestStream stream;
  stream.add(bytes_of(header).first(offsetof(Header, digest)));
  stream.add(payload);
  return stream.value();
}

}  // namespace

Result<std::optional<Bytes>> DurableRecord::load() const {
  Result<Bytes> file = files_->read(path_, kLimitBytes + sizeof(Header));
  if (!file) {
    if (file.error().code == ErrorCode::not_found) return std::optional<Bytes>{};
    return file.error();
  }
  auto corrupted = [&](const char* what) {
    return Error{ErrorCode::corrupted, path_.string() + ": " + what +
                                           ": restore it from a copy; a node without it must "
                                           "start with a new state directory"};
  };
  const Bytes& bytes = *file;
  Header header;
  if (bytes.size() < sizeof header) return corrupted("shorter than a record's header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != format_.magic) return corrupted("does not begin as this record does");
  ByteView payload = ByteView(bytes).subspan(sizeof header);
  if (header.length != payload.size()) return corrupted("torn: length does not match");
  if (header.digest != digest_of_record(header, payload))
    return corrupted("checksum does not match");
  if (header.version != format_.version)
    return Error{ErrorCode::unsupported, path_.string() +
                                             " was written by another version (format " +
                                             std::to_string(header.version) + ", this one reads " +
                                             std::to_string(format_.version) + ")"};
  return std::optional<Bytes>(to_bytes(payload));
}

Result<void> DurableRecord::store(ByteView payload) {
  if (payload.size() > kLimitBytes)
    return Error{ErrorCode::resource_exhausted,
                 path_.string() + ": a record may have at most 64 MiB"};
  Header header{format_.magic, format_.version, payload.size(), {}};
  header.digest = digest_of_record(header, payload);
  return files_->write_atomic(path_, {bytes_of(header), payload});
}

}  // namespace gpunode::storage
