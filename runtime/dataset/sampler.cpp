#include "runtime/dataset/sampler.hpp"

#include <string>

#include "runtime/base/check.hpp"
#include "runtime/dataset/shuffle.hpp"

namespace gpunode::dataset {

Sampler::Sampler(SamplerSettings settings) : settings_(settings) {
  GPUNODE_CHECK(settings.sample_count > 0 && settings.batch > 0 && settings.slices > 0,
                "sampler with " + std::to_string(settings.sample_count) + " samples, batch " +
                    std::to_string(settings.batch) + ", slices " + std::to_string(settings.slices));
}

PositionRange Sampler::positions(std::uint64_t step, std::uint32_t slice) const {
  GPUNODE_CHECK(slice < settings_.slices, "slice " + std::to_string(slice));
  std::uint64_t batch = settings_.batch;
  std::uint64_t first = step * batch;
  return {first + slice * batch / settings_.slices,
          first + (std::uint64_t{slice} + 1) * batch / settings_.slices};
}

SamplePlace Sampler::place_of(std::uint64_t position) const {
  std::uint64_t data_epoch = position / settings_.sample_count;
  Shuffle shuffle(settings_.seed, data_epoch, settings_.sample_count);
  return {data_epoch, shuffle.at(position % settings_.sample_count)};
}

std::vector<SamplePlace> Sampler::samples(std::uint64_t step, std::uint32_t slice) const {
  PositionRange range = positions(step, slice);
  std::vector<SamplePlace> places;
  places.reserve(range.end - range.begin);
  for (std::uint64_t position = range.begin; position < range.end; ++position)
    places.push_back(place_of(position));
  return places;
}

}  // namespace gpunode::dataset
