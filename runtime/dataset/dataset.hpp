// Training samples of equal size and those held out, whatever they were made from: what the sampler
// orders, the prefetcher reads and a job's proof covers. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/bytes.hpp"
#include "runtime/base/sample_field.hpp"
#include "runtime/dataset/text_source.hpp"

namespace gpunode::dataset {

class Dataset {
 public:
  Dataset(std::shared_ptr<const TextSource> source, std::vector<SampleField> fields)
      : source_(std::move(source)), fields_(std::move(fields)) {}
  virtual ~Dataset() = default;

  // What a sample consists of, in this order.
  const std::vector<SampleField>& fields() const { return fields_; }
  std::size_t sample_bytes() const { return bytes_of(fields_); }
  const TextSource& source() const { return *source_; }
  const std::shared_ptr<const TextSource>& shared_source() const { return source_; }
  // Of all bytes that samples are made from, held-out ones included.
  virtual std::uint64_t size_bytes() const { return source_->size_bytes(); }
  virtual storage::Sha256 data_digest() const { return source_->data_digest(); }

  virtual std::uint64_t sample_count() const = 0;
  // Copies sample `index` < sample_count(); target.size() == sample_bytes().
  virtual void read_sample(std::uint64_t index, MutableByteView target) const = 0;

  // Samples that are never trained on and share nothing with those that are, nor targets with one
  // another.
  virtual std::uint64_t held_out_count() const = 0;
  virtual void read_held_out(std::uint64_t index, MutableByteView target) const = 0;

 private:
  std::shared_ptr<const TextSource> source_;
  std::vector<SampleField> fields_;
};

}  // namespace gpunode::dataset
