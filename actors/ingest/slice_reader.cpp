#include "actors/ingest/slice_reader.hpp"

#include "runtime/base/fault_point.hpp"
#include "runtime/dataset/sample_hash.hpp"

namespace gpunode::ingest {

SliceReader::SliceReader(std::shared_ptr<const dataset::Dataset> data, SliceSettings settings)
    : data_(std::move(data)),
      sampler_({settings.seed, data_->sample_count(), settings.batch, settings.slices}) {}

Slice SliceReader::read(SliceKey key) const {
  fault_point("data", key.step + 1);
  Slice slice;
  slice.key = key;
  slice.sample_bytes = data_->sample_bytes();
  slice.samples = sampler_.samples(key.step, key.slice);
  slice.bytes.resize(slice.samples.size() * slice.sample_bytes);
  for (std::size_t row = 0; row < slice.samples.size(); ++row) {
    const MutableByteView sample =
        MutableByteView(slice.bytes).subspan(row * slice.sample_bytes, slice.sample_bytes);
    const dataset::SamplePlace& place = slice.samples[row];
    data_->read_sample(place.sample, sample);
    slice.data_fingerprint += dataset::sample_hash(place.sample, place.data_epoch, sample);
  }
  return slice;
}

}  // namespace gpunode::ingest
