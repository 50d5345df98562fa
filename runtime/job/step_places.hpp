// StepPlaces: which places of the step under way a peer's bulk message may be read into, asked by
// the link before the payload is there. The body is decoded again with the whole message: it comes
// before the payload. One of a job, shared by its core and the link's thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/collective/chunk_places.hpp"
#include "runtime/collective/exchange_codec.hpp"

namespace gpunode::job {

class StepPlaces {
 public:
  struct Step {
    collective::ExchangeName name;
    std::vector<NodeId> members;  // by rank
    std::uint32_t chunk_count = 0;
    std::shared_ptr<collective::ChunkPlaces> places;
  };

  // Both from the core's thread: open when StepRunner begins a step, close with a view or the end;
  // then messages are read elsewhere. What was lent of the step before stays with its borrower.
  void open(Step step);
  void close();

  // Any thread. The place for the payload of the message with this body; empty: read it elsewhere.
  // Reads what a peer sent: never fails on it.
  WritableBytes lend(const NodeId& from, ByteView body, std::size_t payload_bytes);

 private:
  std::mutex mutex_;
  std::shared_ptr<const Step> step_;
};

}  // namespace gpunode::job
