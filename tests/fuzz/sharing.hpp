// Messages whose many fields point to the same few bytes (sharing_codec.cpp).
#pragma once

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::fuzz {

Bytes shared_revocations();
Bytes shared_items();
Bytes shared_labels_of_hint();
Bytes shared_labels_of_manifest(ByteView manifest);  // one that is like this
Bytes shared_events();
Bytes shared_slices();
Bytes shared_views(const Digest& job);
Bytes shared_promises(const Digest& job);

}  // namespace gpunode::fuzz
