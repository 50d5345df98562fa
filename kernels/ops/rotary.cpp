#include "kernels/ops/rotary.hpp"

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/tensor/exact_math.hpp"

namespace gpunode::ops {
namespace {

using Table = std::vector<float>;

std::shared_ptr<const Table> make_angles(const RotaryShape& shape) {
  const std::int64_t pairs = shape.head_size / 2;
  std::vector<double> speeds;
  for (std::int64_t pair = 0; pair < pairs; ++pair)
    speeds.push_back(tensor::exact_exp(-static_cast<double>(pair) / static_cast<double>(pairs) *
                                       tensor::exact_log(shape.theta)));
  auto table = std::make_shared<Table>();
  table->reserve(static_cast<std::size_t>(shape.length * shape.head_size));
  for (std::int64_t position = 0; position < shape.length; ++position)
    for (const double speed : speeds) {
      const double angle = static_cast<double>(position) * speed;
      table->push_back(static_cast<float>(tensor::exact_cos(angle)));
      table->push_back(static_cast<float>(tensor::exact_sin(angle)));
    }
  return table;
}

}  // namespace

std::shared_ptr<const Table> rotary_angles(const RotaryShape& shape) {
  static std::mutex mutex;
  static std::map<std::tuple<std::int64_t, std::int64_t, double>, std::weak_ptr<const Table>> kept;
  GPUNODE_CHECK(shape.length > 0 && shape.head_size > 0 && shape.head_size % 2 == 0,
                "rotary: a head has an even number of elements");
  const std::tuple key{shape.length, shape.head_size, shape.theta};
  {
    std::lock_guard lock(mutex);
    if (auto table = kept[key].lock()) return table;
  }
  auto made = make_angles(shape);  // takes long where it is large: others do not wait for it
  std::lock_guard lock(mutex);
  if (auto table = kept[key].lock()) return table;
  kept[key] = made;
  return made;
}

}  // namespace gpunode::ops
