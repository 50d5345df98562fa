// Counters, gauges and histograms, by name and labels. Thread-safe: looking an instrument up takes
// a lock, using it is one relaxed atomic operation; hold on to the reference. One registry a node,
// owned by the composition root and living longer than every user of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

namespace gpunode::telemetry {

class Counter {
 public:
  void add(std::uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  // A total that is counted elsewhere. It never falls, whoever comes late with an older one.
  void raise_to(std::uint64_t total) { raise(value_, total); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  template <class Number>
  static void raise(std::atomic<Number>& value, Number total) {
    Number now = value.load(std::memory_order_relaxed);
    while (now < total && !value.compare_exchange_weak(now, total, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A counter of what is no whole number: seconds, counted elsewhere.
class SecondsCounter {
 public:
  void raise_to(double total) { Counter::raise(value_, total); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

class Gauge {
 public:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();  // is not shown

  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

// Fixed logarithmic buckets: one a doubling from 2^-20 (about one microsecond, in seconds) to 2^11,
// and one for what is larger.
class Histogram {
 public:
  static constexpr int kLowestExponent = -20;
  static constexpr std::size_t kBuckets = 33;

  // Negative values and NaN count as 0.
  void record(double value);
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  std::uint64_t count() const;
  std::uint64_t bucket(std::size_t index) const {
    return buckets_[index].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<double> sum_{0.0};
};

using Labels = std::map<std::string, std::string>;

class Registry {
 public:
  // The instrument of this name and these labels, made at the first call. The reference stays
  // valid as long as the registry. `help` of the first call wins. A name that is already another
  // kind of instrument gives one that is counted nowhere (and logged): telemetry breaks nothing.
  Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
  SecondsCounter& seconds(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, const Labels& labels = {});

  // What instruments of this registry tell, under a name that others know it by, read whenever it is shown: one
  // source, several names. `read` is quick, looks up no instrument, and gives a whole number where it is a
  // counter's. The same name and labels again: the later one is shown.
  enum class Shown { counter, gauge };
  void also(std::string_view name, std::string_view help, const Labels& labels, Shown as,
            std::function<double()> read);
  void also(std::string_view name, std::string_view help, const Labels& labels,
            const Histogram& histogram);

  // Everything in the Prometheus text format, version 0.0.4. Whole numbers are written as such, all
  // others so that they read back as the same double.
  std::string prometheus_text() const;

 private:
  struct Derived {
    Shown as = Shown::counter;
    std::function<double()> read = {};
  };
  using Alias = const Histogram*;
  using Instrument = std::variant<Counter, SecondsCounter, Gauge, Histogram, Derived, Alias>;
  struct Family {
    std::string help;
    std::map<std::string, Instrument> series;  // by rendered labels; never empty, all of one kind
  };
  template <class Kind>
  Kind& find_or_make(std::string_view name, std::string_view help, const Labels& labels);
  template <class Kind>
  Kind& find_or_make_locked(std::string_view name, std::string_view help, const Labels& labels);
  static const char* kind_of(const Instrument& instrument);

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
  std::deque<Instrument> mismatched_;
};

}  // namespace gpunode::telemetry
