#include "actors/ingest/slice_reader.hpp"

#include "runtime/base/fault_point.hpp"
#include "runtime/dataset/sample_hash.hpp"

namespace gpunode::ingest {

SliceReader::SliceReader(dataset::TextDataset data, SliceSettings settings)
    : data_(std::move(data)),
      sampler_({settings.seed, data_.sample_count(), settings.batch, settings.slices}) {}

Slice SliceReader::read(SliceKey key) const {
  fault_point("data", key.step + 1);
  Slice slice;
  slice.key = key;
  slice.window_bytes = data_.window_bytes();
  slice.samples = sampler_.samples(key.step, key.slice);
  slice.windows.resize(slice.samples.size() * slice.window_bytes);
  for (std::size_t row = 0; row < slice.samples.size(); ++row) {
    MutableByteView window =
        MutableByteView(slice.windows).subspan(row * slice.window_bytes, slice.window_bytes);
    const dataset::SamplePlace& place = slice.samples[row];
    data_.read_sample(place.sample, window);
    slice.data_fingerprint += dataset::sample_hash(place.sample, place.data_epoch, window);
  }
  return slice;
}

}  // namespace gpunode::ingest
