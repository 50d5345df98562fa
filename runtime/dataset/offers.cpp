#include "runtime/dataset/offers.hpp"

#include <algorithm>

#include "runtime/storage/confined_files.hpp"

namespace gpunode::dataset {
namespace {

bool may_use(const Offer& offer, const JobOwner& owner) {
  return owner.here || !offer.users ||
         std::ranges::find(*offer.users, owner.node) != offer.users->end();
}

}  // namespace

Result<void> Offers::check(const NamedFiles& named, const JobOwner& owner) const {
  if (named.set.empty()) {
    if (owner.here) return {};
    return Error{ErrorCode::permission_denied,
                 named.path_key +
                     " is read at the node that submits the job alone: for this one write " +
                     named.set_key +
                     " = \"NAME\" in its place, and [data.NAME] with path = \"...\" "
                     "into this one's gpunode.toml (or start it with --data NAME=PATH)"};
  }
  const auto found = options_.sets.find(named.set);
  if (found != options_.sets.end() && may_use(found->second, owner)) return {};
  std::string known;
  for (const auto& [name, offer] : options_.sets)
    if (may_use(offer, owner)) known += (known.empty() ? "" : ", ") + name;
  return Error{ErrorCode::not_found,
               "it offers no data set '" + named.set + "' to this job's owner" +
                   (known.empty() ? "" : ", but " + known) + ": write [data." + named.set +
                   "] with path = \"...\" into its gpunode.toml (or start it with --data " +
                   named.set + "=PATH), and start it again"};
}

Result<OfferedFiles> Offers::open(const NamedFiles& named, const JobOwner& owner) const {
  if (auto may = check(named, owner); !may) return may.error();
  const bool by_name = !named.set.empty();
  const storage::Path place =
      by_name ? options_.sets.at(named.set).path : storage::Path(named.path);
  const storage::Path shown_as = by_name ? "data set '" + named.set + "'" : named.path;
  auto files = storage::ConfinedFiles::open({place, shown_as, options_.state});
  if (!files) return files.error();
  return OfferedFiles{*std::move(files), shown_as};
}

}  // namespace gpunode::dataset
