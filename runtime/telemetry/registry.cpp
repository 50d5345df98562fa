#include "runtime/telemetry/registry.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/log.hpp"

namespace gpunode::telemetry {

namespace {

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

// `{a="b",c="d"}`, or nothing without labels.
std::string rendered(const Labels& labels) {
  std::string out;
  for (const auto& [key, value] : labels)
    out += (out.empty() ? "" : ",") + key + "=\"" + escaped(value, true) + "\"";
  return out.empty() ? out : "{" + out + "}";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kWhole = 9007199254740992.0;  // 2^53: up to here every whole number is exact
  if (std::abs(value) <= kWhole && value == std::trunc(value))
    return std::to_string(static_cast<std::int64_t>(value));
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

void write_histogram(std::string& out, const std::string& name, const std::string& labels,
                     const Histogram& histogram) {
  const std::string opened = labels.empty() ? "{" : labels.substr(0, labels.size() - 1) + ",";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    below += histogram.bucket(i);
    const bool last = i + 1 == Histogram::kBuckets;
    const double border = std::exp2(Histogram::kLowestExponent + static_cast<double>(i));
    out += name + "_bucket" + opened + "le=\"" + (last ? "+Inf" : number(border)) + "\"} " +
           std::to_string(below) + "\n";
  }
  out += name + "_sum" + labels + " " + number(histogram.sum()) + "\n";
  out += name + "_count" + labels + " " + std::to_string(below) + "\n";
}

}  // namespace

void Histogram::record(double value) {
  if (!(value > 0)) value = 0;
  std::size_t index = 0;
  if (value > 0) {
    const double place = std::ceil(std::log2(value) - kLowestExponent);
    index = static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBuckets - 1)));
  }
  buckets_[index].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::uint64_t Histogram::count() const {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) all += bucket(i);
  return all;
}

template <class Kind>
Kind& Registry::find_or_make(std::string_view name, std::string_view help, const Labels& labels) {
  std::lock_guard lock(mutex_);
  return find_or_make_locked<Kind>(name, help, labels);
}

template <class Kind>
Kind& Registry::find_or_make_locked(std::string_view name, std::string_view help,
                                    const Labels& labels) {
  auto& series =
      families_.try_emplace(std::string(name), Family{std::string(help), {}}).first->second.series;
  if (!series.empty() && !std::holds_alternative<Kind>(series.begin()->second)) {
    log::warning("telemetry", "two kinds of instrument are called " + std::string(name) +
                                  ": the later one is not shown");
    return std::get<Kind>(mismatched_.emplace_back(std::in_place_type<Kind>));
  }
  const auto place = series.try_emplace(rendered(labels), std::in_place_type<Kind>).first;
  return std::get<Kind>(place->second);
}

Counter& Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
  return find_or_make<Counter>(name, help, labels);
}
SecondsCounter& Registry::seconds(std::string_view name, std::string_view help,
                                  const Labels& labels) {
  return find_or_make<SecondsCounter>(name, help, labels);
}
Gauge& Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  return find_or_make<Gauge>(name, help, labels);
}
Histogram& Registry::histogram(std::string_view name, std::string_view help, const Labels& labels) {
  return find_or_make<Histogram>(name, help, labels);
}

void Registry::also(std::string_view name, std::string_view help, const Labels& labels, Shown as,
                    std::function<double()> read) {
  std::lock_guard lock(mutex_);
  find_or_make_locked<Derived>(name, help, labels) = {as, std::move(read)};
}
void Registry::also(std::string_view name, std::string_view help, const Labels& labels,
                    const Histogram& histogram) {
  std::lock_guard lock(mutex_);
  find_or_make_locked<Alias>(name, help, labels) = &histogram;
}

const char* Registry::kind_of(const Instrument& instrument) {
  if (const auto* derived = std::get_if<Derived>(&instrument))
    return derived->as == Shown::counter ? "counter" : "gauge";
  static constexpr const char* kKinds[] = {"counter",   "counter", "gauge",
                                           "histogram", "",        "histogram"};  // of Instrument
  return kKinds[instrument.index()];
}

std::string Registry::prometheus_text() const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += "# HELP " + name + " " + escaped(family.help, false) + "\n";
    out += "# TYPE " + name + " " + kind_of(family.series.begin()->second) + "\n";
    for (const auto& [labels, instrument] : family.series) {
      if (const auto* counter = std::get_if<Counter>(&instrument))
        out += name + labels + " " + std::to_string(counter->value()) + "\n";
      else if (const auto* seconds = std::get_if<SecondsCounter>(&instrument))
        out += name + labels + " " + number(seconds->value()) + "\n";
      else if (const auto* gauge = std::get_if<Gauge>(&instrument))
        out += std::isnan(gauge->value()) ? std::string()
                                          : name + labels + " " + number(gauge->value()) + "\n";
      else if (const auto* derived = std::get_if<Derived>(&instrument))
        out += name + labels + " " + number(derived->read()) + "\n";
      else if (const auto* alias = std::get_if<Alias>(&instrument))
        write_histogram(out, name, labels, **alias);
      else
        write_histogram(out, name, labels, std::get<Histogram>(instrument));
    }
  }
  return out;
}

}  // namespace gpunode::telemetry
