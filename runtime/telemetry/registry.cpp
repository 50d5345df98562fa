#include "runtime/telemetry/registry.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

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

// `{a="b",c="d"}`, or nothing without labels; `extra` comes last.
std::string rendered(const Labels& labels, const std::string& extra = {}) {
  std::string out;
  for (const auto& [key, value] : labels)
    out += (out.empty() ? "" : ",") + key + "=\"" + escaped(value, true) + "\"";
  if (!extra.empty()) out += (out.empty() ? "" : ",") + extra;
  return out.empty() ? out : "{" + out + "}";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

void write_histogram(std::string& out, const std::string& name, const Labels& labels,
                     const Histogram& histogram) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    below += histogram.bucket(i);
    // One line a doubling keeps the page readable; the finer buckets serve quantile().
    if (i % Histogram::kPerDoubling != 0 || i + 1 == Histogram::kBuckets) continue;
    out += name + "_bucket" + rendered(labels, "le=\"" + number(Histogram::border(i)) + "\"") +
           " " + std::to_string(below) + "\n";
  }
  out += name + "_bucket" + rendered(labels, "le=\"+Inf\"") + " " + std::to_string(below) + "\n";
  out += name + "_sum" + rendered(labels) + " " + number(histogram.sum()) + "\n";
  out += name + "_count" + rendered(labels) + " " + std::to_string(below) + "\n";
}

}  // namespace

double Histogram::border(std::size_t index) {
  if (index + 1 >= kBuckets) return std::numeric_limits<double>::infinity();
  return std::exp2(kLowestExponent + static_cast<double>(index) / kPerDoubling);
}

void Histogram::record(double value) {
  if (!(value > 0)) value = 0;
  std::size_t index = 0;
  if (value > 0) {
    const double place = std::ceil((std::log2(value) - kLowestExponent) * kPerDoubling);
    index = static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBuckets - 1)));
  }
  buckets_[index].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

double Histogram::quantile(double quantile) const {
  std::array<std::uint64_t, kBuckets> counts;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) total += counts[i] = bucket(i);
  if (total == 0) return 0.0;
  const double wanted = std::clamp(quantile, 0.0, 1.0) * static_cast<double>(total);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    below += counts[i];
    if (below > 0 && static_cast<double>(below) >= wanted) return border(i);
  }
  return border(kBuckets - 1);
}

Registry::Series& Registry::find_or_make(Kind kind, std::string_view name, std::string_view help,
                                         const Labels& labels) {
  std::lock_guard lock(mutex_);
  auto family = families_.find(name);
  if (family == families_.end())
    family = families_.emplace(std::string(name), Family{kind, std::string(help), {}}).first;
  Series* series = nullptr;
  if (family->second.kind == kind) {
    series = &family->second.series[rendered(labels)];
  } else {
    log::warning("telemetry", "two kinds of instrument are called " + std::string(name) +
                                  ": the later one is not shown");
    series = mismatched_.emplace_back(std::make_unique<Series>()).get();
  }
  series->labels = labels;
  if (kind == Kind::counter && !series->counter) series->counter = std::make_unique<Counter>();
  if (kind == Kind::gauge && !series->gauge) series->gauge = std::make_unique<Gauge>();
  if (kind == Kind::histogram && !series->histogram)
    series->histogram = std::make_unique<Histogram>();
  return *series;
}

Counter& Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
  return *find_or_make(Kind::counter, name, help, labels).counter;
}
Gauge& Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  return *find_or_make(Kind::gauge, name, help, labels).gauge;
}
Histogram& Registry::histogram(std::string_view name, std::string_view help, const Labels& labels) {
  return *find_or_make(Kind::histogram, name, help, labels).histogram;
}

std::string Registry::prometheus_text() const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    const char* kind = family.kind == Kind::counter ? "counter"
                       : family.kind == Kind::gauge ? "gauge"
                                                    : "histogram";
    out += "# HELP " + name + " " + escaped(family.help, false) + "\n";
    out += "# TYPE " + name + " " + kind + "\n";
    for (const auto& [labels, series] : family.series) {
      if (series.counter)
        out += name + labels + " " + std::to_string(series.counter->value()) + "\n";
      else if (series.gauge)
        out += name + labels + " " + number(series.gauge->value()) + "\n";
      else
        write_histogram(out, name, series.labels, *series.histogram);
    }
  }
  return out;
}

}  // namespace gpunode::telemetry
