#include "runtime/storage/durable_record.hpp"

#include <cstring>

#include "runtime/base/digest.hpp"

namespace gpunode::storage {
namespace {

constexpr std::size_t kPrefixBytes = 16;  // magic, version, length
constexpr std::size_t kHeaderBytes = kPrefixBytes + 16;

void put(std::byte* target, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) target[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint64_t get(const std::byte* source, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(source[i]) << (8 * i);
  return value;
}

Digest digest_of_record(ByteView prefix, ByteView payload) {
  DigestStream stream;
  stream.add(prefix);
  stream.add(payload);
  return stream.value();
}

}  // namespace

Result<std::optional<Bytes>> DurableRecord::load() const {
  Result<Bytes> file = files_->read(path_, kLimitBytes + kHeaderBytes);
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
  if (bytes.size() < kHeaderBytes) return corrupted("shorter than a record's header");
  if (std::memcmp(bytes.data(), format_.magic.data(), 4) != 0)
    return corrupted("does not begin as this record does");
  ByteView payload = ByteView(bytes).subspan(kHeaderBytes);
  if (get(bytes.data() + 8, 8) != payload.size()) return corrupted("torn: length does not match");
  Digest stored{get(bytes.data() + 16, 8), get(bytes.data() + 24, 8)};
  if (stored != digest_of_record(ByteView(bytes).first(kPrefixBytes), payload))
    return corrupted("checksum does not match");
  std::uint64_t version = get(bytes.data() + 4, 4);
  if (version != format_.version)
    return Error{ErrorCode::unsupported, path_.string() +
                                             " was written by another version (format " +
                                             std::to_string(version) + ", this one reads " +
                                             std::to_string(format_.version) + ")"};
  return std::optional<Bytes>(to_bytes(payload));
}

Result<void> DurableRecord::store(ByteView payload) {
  if (payload.size() > kLimitBytes)
    return Error{ErrorCode::resource_exhausted,
                 path_.string() + ": a record may have at most 64 MiB"};
  std::array<std::byte, kHeaderBytes> header{};
  std::memcpy(header.data(), format_.magic.data(), 4);
  put(header.data() + 4, format_.version, 4);
  put(header.data() + 8, payload.size(), 8);
  Digest digest = digest_of_record(ByteView(header).first(kPrefixBytes), payload);
  put(header.data() + 16, digest.high, 8);
  put(header.data() + 24, digest.low, 8);
  return files_->write_atomic(path_, {ByteView(header), payload});
}

}  // namespace gpunode::storage
