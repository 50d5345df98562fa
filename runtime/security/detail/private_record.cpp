#include "runtime/security/detail/private_record.hpp"

namespace gpunode::security::detail {

Result<std::optional<Bytes>> load_private(storage::FileSystem& files, const storage::Path& path,
                                          storage::RecordFormat format) {
  auto entry = files.inspect(path);
  if (!entry && entry.error().code == ErrorCode::not_found) return std::optional<Bytes>();
  if (!entry) return entry.error();
  if (entry->kind != storage::EntryKind::file) {
    return {ErrorCode::permission_denied,
            path.string() +
                " must be a regular file, as it holds secrets; put the file itself "
                "there"};
  }
  if (entry->open_to_others) {
    return {ErrorCode::permission_denied,
            path.string() +
                " holds secrets, but group or others have access to it; if nobody has "
                "read it, run: chmod 600 " +
                path.string()};
  }
  return storage::DurableRecord(files, path, format).load();
}

}  // namespace gpunode::security::detail
