#include "actors/compute/device_roster.hpp"

#include <algorithm>

#include "runtime/base/pci_bus_id.hpp"

namespace gpunode::compute {
namespace {

// What one look may count: longer ones were not watched.
constexpr Duration kLongestLook = std::chrono::seconds(2);

std::string seconds_text(Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

std::string_view to_string(DeviceCondition state) {
  constexpr std::string_view kNames[] = {"ready", "drained", "lost"};
  return kNames[static_cast<std::size_t>(state)];
}

void NodeDevice::settle() {
  if (condition_ == DeviceCondition::lost) return;
  condition_ = is_ordered_ || is_heeded_ ? DeviceCondition::drained : DeviceCondition::ready;
}

void NodeDevice::drain() {
  std::lock_guard lock(mutex_);
  is_ordered_ = true;
  settle();
}

void NodeDevice::resume() {
  std::lock_guard lock(mutex_);
  is_ordered_ = false;
  is_heeded_ = false;
  is_overruled_ = !verdict_.empty();
  settle();
}

std::string NodeDevice::judge(const std::string& verdict, bool may_drain) {
  std::lock_guard lock(mutex_);
  const DeviceCondition before = condition_;
  const bool is_new = verdict_.empty() && !verdict.empty();
  verdict_ = verdict;
  is_overruled_ = is_overruled_ && !verdict.empty();
  is_heeded_ = !verdict.empty() && !is_overruled_ && (is_heeded_ || may_drain);
  settle();
  if (before == DeviceCondition::lost) return {};
  if (condition_ != before)
    return id_ + (is_heeded_ ? " is drained: " + verdict : " takes work again, it has recovered");
  if (is_new && condition_ == DeviceCondition::ready)
    return id_ + " should be drained, but is the last device that takes work: " + verdict;
  return {};
}

void NodeDevice::on_lost(OnLost told) {
  std::lock_guard lock(mutex_);
  on_lost_ = std::move(told);
}

void NodeDevice::lose(const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (condition_.exchange(DeviceCondition::lost) == DeviceCondition::lost) return;
  reason_ = reason;
  std::set<std::string> users;
  for (const DeviceUse* use : uses_) users.insert(use->user_);
  const OnLost told = on_lost_;
  lock.unlock();
  if (told) told(*this, reason, users);
}

NodeDevice::Status NodeDevice::status() const {
  std::lock_guard lock(mutex_);
  Status status{condition_, reason_, {}, {}};
  if (condition_ == DeviceCondition::drained && is_heeded_) status.reason = verdict_;
  if (condition_ == DeviceCondition::ready && !verdict_.empty())
    status.warning =
        (is_overruled_ ? "as it was resumed: " : "as the last device that does: ") + verdict_;
  for (const DeviceUse* use : uses_) status.users.insert(use->user_);
  return status;
}

void NodeDevice::look_for_hangs(Time now, Duration timeout) {
  std::string hangs;
  {
    std::lock_guard lock(mutex_);
    const Duration passed =
        looked_ == Time{} ? Duration{} : std::min(now - looked_, Duration(kLongestLook));
    looked_ = now;
    for (DeviceUse* use : uses_) {
      const std::uint64_t signs = use->signs_;
      const bool waits = use->busy_ > 0 && signs == use->signs_seen_;
      use->signs_seen_ = signs;
      use->quiet_ = waits ? use->quiet_ + passed : Duration{};
      if (use->quiet_ >= timeout)
        hangs = "it has not got on with the work of " + use->user_ + " for " +
                seconds_text(use->quiet_);
    }
  }
  if (!hangs.empty()) lose(hangs);
}

DeviceUse::DeviceUse(NodeDevice& device, std::string user)
    : device_(device), user_(std::move(user)) {
  std::lock_guard lock(device_.mutex_);
  device_.uses_.push_back(this);
}

DeviceUse::~DeviceUse() {
  std::lock_guard lock(device_.mutex_);
  std::erase(device_.uses_, this);
}

DeviceRoster::DeviceRoster(std::unique_ptr<ops::Backend> host) : host_(std::move(host)) {
  devices_.push_back(std::make_unique<NodeDevice>("cpu", *host_));
}

void DeviceRoster::add(std::string id, std::unique_ptr<ops::Backend> backend,
                       const std::string& pci_bus_id) {
  if (!std::exchange(has_others_, true)) devices_.clear();
  devices_.push_back(std::make_unique<NodeDevice>(
      std::move(id), *backend, normal_pci_bus_id(pci_bus_id).value_or(std::string())));
  backends_.push_back(std::move(backend));
}

Result<std::vector<NodeDevice*>> DeviceRoster::ready() const {
  std::vector<NodeDevice*> ready;
  std::string states;
  for (const auto& device : devices_) {
    if (device->condition() == DeviceCondition::ready) ready.push_back(device.get());
    states += (states.empty() ? "" : ", ") + device->id() + " is " +
              std::string(to_string(device->condition()));
  }
  if (ready.empty())
    return Error{ErrorCode::no_device, "this node has no device to compute on: " + states +
                                           "; `gpunode device resume` takes a drained one back, a "
                                           "lost one needs the node's process to start anew"};
  return ready;
}

Result<NodeDevice*> DeviceRoster::find(const std::string& id) const {
  std::string known;
  for (const auto& device : devices_) {
    if (device->id() == id) return device.get();
    known += (known.empty() ? "" : ", ") + device->id();
  }
  return Error{ErrorCode::not_found, "this node has no device '" + id + "', but " + known};
}

Result<void> DeviceRoster::drain(const std::string& id) {
  std::lock_guard lock(order_mutex_);
  auto device = find(id);
  if (!device) return device.error();
  if ((*device)->condition() == DeviceCondition::lost)
    return {ErrorCode::wrong_state, id + " is lost: " + (*device)->status().reason};
  if (!is_another_ready(**device))
    return {ErrorCode::wrong_state,
            id + " is the last device of this node that takes work: `gpunode leave` hands the "
                 "node's jobs over"};
  (*device)->drain();
  return {};
}

bool DeviceRoster::is_another_ready(const NodeDevice& than) const {
  return std::ranges::any_of(devices_, [&](const auto& one) {
    return one.get() != &than && one->condition() == DeviceCondition::ready;
  });
}

std::vector<std::string> DeviceRoster::judge(const std::string& pci_bus_id,
                                             const std::string& verdict) {
  std::vector<std::string> news;
  const auto place = normal_pci_bus_id(pci_bus_id);
  if (!place) return news;
  std::lock_guard lock(order_mutex_);
  for (const auto& device : devices_) {
    if (device->pci_bus_id() != *place) continue;
    std::string one = device->judge(verdict, is_another_ready(*device));
    if (!one.empty()) news.push_back(std::move(one));
  }
  return news;
}

Result<void> DeviceRoster::resume(const std::string& id) {
  std::lock_guard lock(order_mutex_);
  auto device = find(id);
  if (!device) return device.error();
  if ((*device)->condition() == DeviceCondition::lost)
    return {ErrorCode::wrong_state, id + " is lost (" + (*device)->status().reason +
                                        "): the node's process must start anew to have it back"};
  (*device)->resume();
  return {};
}

}  // namespace gpunode::compute
