// The devices that a node computes on, and how each fares. Who computes holds a DeviceUse of one:
// it says there when it works and that it gets on, and asks whether to go on. An operator, or a
// probe's verdict, drains a device, which then gets no more work; one that fails for good, or shows
// no sign of getting on, is lost until the process starts anew, as nothing in CUDA gives it back.
// All from any thread.
//
//   state    drain()   resume()         verdict                      withdrawn       lose()
//   ready    drained   -                drained, but for the last    -               lost
//                                       and where resume() overrules
//   drained  drained   ready, and       drained                      ready, unless   lost
//                      overrules the                                 an order
//                      verdict                                       drained it
//   lost     -         -                -                            -               -
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernels/ops/backend.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/precision.hpp"

namespace gpunode::compute {

class DeviceUse;

enum class DeviceCondition : std::uint8_t { ready, drained, lost };
std::string_view to_string(DeviceCondition state);

class NodeDevice {
 public:
  // `id` is what an operator calls it: "cpu", "cuda:1". `pci_bus_id` in normal form, or empty. The
  // backend outlives the device.
  NodeDevice(std::string id, ops::Backend& backend, std::string pci_bus_id = {})
      : id_(std::move(id)), pci_bus_id_(std::move(pci_bus_id)), backend_(backend) {}
  NodeDevice(const NodeDevice&) = delete;
  NodeDevice& operator=(const NodeDevice&) = delete;

  const std::string& id() const { return id_; }
  const std::string& pci_bus_id() const { return pci_bus_id_; }
  ops::Backend& backend() const { return backend_; }
  DeviceCondition condition() const { return condition_; }
  void drain();   // by an operator; but for one that is lost
  void resume();  // likewise; a verdict that stands is overruled until it is withdrawn
  // A probe's verdict, as often as it likes; empty: it is withdrawn. `may_drain`: whether the node
  // can do without this device. What became of it is a sentence for the log; empty: nothing new.
  std::string judge(const std::string& verdict, bool may_drain);
  // Once; tells whoever called on_lost(), with who uses it.
  void lose(const std::string& reason);
  using OnLost = std::function<void(const NodeDevice&, const std::string& reason,
                                    const std::set<std::string>& users)>;
  void on_lost(OnLost told);

  struct Status {
    DeviceCondition condition = DeviceCondition::ready;
    std::string reason;           // why it is lost, or drained by a verdict
    std::string warning;          // the verdict on it, although it takes work
    std::set<std::string> users;  // that have not let go of it
  };
  Status status() const;
  // Looks at every use; the device is lost if one has worked for `timeout` without getting on.
  // Time is counted as far as it is watched: a process that was stopped for an hour has not hung
  // for an hour. Called every second or more often, by one thread.
  void look_for_hangs(Time now, Duration timeout);
  // The most flops a second that it has shown in products of that precision, by device_peak.hpp; 0:
  // not measured yet.
  double peak_flops(Precision precision) const {
    return peak_flops_[static_cast<std::size_t>(precision)];
  }
  void note_peak(Precision precision, double flops_per_second) {
    auto& peak = peak_flops_[static_cast<std::size_t>(precision)];
    double known = peak;
    while (known < flops_per_second && !peak.compare_exchange_weak(known, flops_per_second)) {
    }
  }

 private:
  friend class DeviceUse;
  void settle();  // with the lock

  std::string id_;
  std::string pci_bus_id_;
  ops::Backend& backend_;
  std::atomic<DeviceCondition> condition_ = DeviceCondition::ready;
  std::array<std::atomic<double>, kPrecisions> peak_flops_ = {};
  mutable std::mutex mutex_;  // over what follows
  std::string reason_;
  bool is_ordered_ = false;    // an operator drained it
  std::string verdict_;        // of a probe; empty: none stands
  bool is_heeded_ = false;     // the verdict drains it
  bool is_overruled_ = false;  // an operator lets it work against the verdict
  std::vector<DeviceUse*> uses_;
  OnLost on_lost_;
  Time looked_{};
};

class DeviceUse {
 public:
  // `user`: a job's id, or what else the work is for.
  DeviceUse(NodeDevice& device, std::string user);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  NodeDevice& device() const { return device_; }
  // Whether there is to be no more work for it.
  bool is_over() const { return device_.condition() != DeviceCondition::ready; }
  void got_on() { signs_.fetch_add(1, std::memory_order_relaxed); }

  // Runs `work`, which returns a Result: its device may not hang meanwhile, and is lost if it
  // fails with device_lost.
  template <class Work>
  auto run(Work work) {
    const Busy busy(*this);
    auto done = work();
    if (!done && done.error().code == ErrorCode::device_lost) device_.lose(done.error().detail);
    return done;
  }

  // Inside of run(): waits for something else than the device, as for data.
  template <class Wait>
  auto apart(Wait wait) {
    const Busy busy(*this, -1);
    return wait();
  }

 private:
  friend class NodeDevice;
  struct Busy {
    explicit Busy(DeviceUse& of, int by = 1) : use(of), more(by) { use.begin(more); }
    ~Busy() { use.begin(-more); }
    DeviceUse& use;
    int more;
  };
  void begin(int more) {
    got_on();
    busy_ += more;
  }

  NodeDevice& device_;
  const std::string user_;
  std::atomic<std::uint64_t> signs_ = 0;
  std::atomic<int> busy_ = 0;
  std::uint64_t signs_seen_ = 0;  // by look_for_hangs, as is what follows
  Duration quiet_{};
};

// All devices of a node, which live as long as the roster.
class DeviceRoster {
 public:
  // The host computes what the exchange adds, and jobs where there is no other device.
  explicit DeviceRoster(std::unique_ptr<ops::Backend> host);

  // Before any work begins. `pci_bus_id` in whatever form; empty where it is not known: then no
  // verdict reaches the device.
  void add(std::string id, std::unique_ptr<ops::Backend> backend,
           const std::string& pci_bus_id = {});
  ops::Backend& host() const { return *host_; }
  // What jobs compute on; never none.
  const std::vector<std::unique_ptr<NodeDevice>>& devices() const { return devices_; }
  // Those that take new work. Fails with: no_device (all are drained or lost).
  Result<std::vector<NodeDevice*>> ready() const;
  // Fails with: not_found, wrong_state (it is lost, or the last that takes work).
  Result<void> drain(const std::string& id);
  Result<void> resume(const std::string& id);
  // What a probe thinks of whatever sits there on the PCI bus (several devices, where a GPU is
  // split): drains them, but never the last that takes work; with an empty verdict, lets those work
  // again that only a verdict drained. To be told again and again: a device that could not be
  // spared is drained as soon as another takes work. Gives sentences for the log.
  std::vector<std::string> judge(const std::string& pci_bus_id, const std::string& verdict);

 private:
  bool is_another_ready(const NodeDevice& than) const;
  Result<NodeDevice*> find(const std::string& id) const;
  std::unique_ptr<ops::Backend> host_;
  std::vector<std::unique_ptr<ops::Backend>> backends_;
  std::vector<std::unique_ptr<NodeDevice>> devices_;
  bool has_others_ = false;  // than the host
  std::mutex order_mutex_;   // one order at a time: never is the last one drained
};

}  // namespace gpunode::compute
