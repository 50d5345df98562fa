#include "runtime/telemetry/registry.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace gpunode::telemetry {
namespace {

TEST(Registry, TheSameNameAndLabelsGiveTheSameInstrument) {
  Registry registry;
  Counter& counter = registry.counter("frames_total", "frames", {{"lane", "bulk"}});
  EXPECT_EQ(&counter, &registry.counter("frames_total", "frames", {{"lane", "bulk"}}));
  EXPECT_NE(&counter, &registry.counter("frames_total", "frames", {{"lane", "control"}}));
}

TEST(Registry, CountersAndGaugesAreWrittenInPrometheusText) {
  Registry registry;
  registry.counter("frames_total", "Frames sent.", {{"lane", "bulk"}}).add(3);
  registry.gauge("load", "Share of time.").set(0.25);
  EXPECT_EQ(registry.prometheus_text(),
            "# HELP frames_total Frames sent.\n"
            "# TYPE frames_total counter\n"
            "frames_total{lane=\"bulk\"} 3\n"
            "# HELP load Share of time.\n"
            "# TYPE load gauge\n"
            "load 0.25\n");
}

TEST(Registry, NumbersAreExact) {
  Registry registry;
  registry.counter("a_total", "a").add(12'345'678'901'234'567u);
  registry.gauge("b", "b").set(1'099'511'627'777);
  registry.gauge("c", "c").set(0.1);
  registry.gauge("d", "d").set(1e300);
  registry.gauge("e", "e").set(-3);
  registry.seconds("f_total", "f").raise_to(1.25);
  const std::string text = registry.prometheus_text();
  for (const char* line : {"a_total 12345678901234567\n", "b 1099511627777\n", "c 0.1\n",
                           "d 1e+300\n", "e -3\n", "# TYPE f_total counter\n", "f_total 1.25\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(Registry, WhatIsUnknownIsNotShownUntilItIsKnown) {
  Registry registry;
  Gauge& gauge = registry.gauge("celsius", "Heat.");
  gauge.set(Gauge::kUnknown);
  EXPECT_EQ(registry.prometheus_text().find("\ncelsius "), std::string::npos);
  gauge.set(61);
  EXPECT_NE(registry.prometheus_text().find("\ncelsius 61\n"), std::string::npos);
}

TEST(Registry, LabelValuesAndHelpAreEscaped) {
  Registry registry;
  registry.gauge("g", "two\nlines \\", {{"path", "a\"b\\c\nd"}}).set(1);
  const std::string text = registry.prometheus_text();
  EXPECT_NE(text.find("# HELP g two\\nlines \\\\\n"), std::string::npos) << text;
  EXPECT_NE(text.find("g{path=\"a\\\"b\\\\c\\nd\"} 1\n"), std::string::npos) << text;
}

TEST(Registry, AHistogramIsWrittenCumulatively) {
  Registry registry;
  Histogram& histogram = registry.histogram("wait_seconds", "Wait.", {{"queue", "q"}});
  histogram.record(0.5);
  histogram.record(3.0);
  histogram.record(1e9);
  const std::string text = registry.prometheus_text();
  EXPECT_NE(text.find("wait_seconds_bucket{queue=\"q\",le=\"0.5\"} 1\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("wait_seconds_bucket{queue=\"q\",le=\"4\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("wait_seconds_bucket{queue=\"q\",le=\"+Inf\"} 3\n"), std::string::npos);
  EXPECT_NE(text.find("wait_seconds_count{queue=\"q\"} 3\n"), std::string::npos);
}

TEST(Registry, ANameOfTwoKindsBreaksNothing) {
  Registry registry;
  registry.counter("x", "first").add(1);
  registry.gauge("x", "second").set(7);
  EXPECT_EQ(registry.prometheus_text(), "# HELP x first\n# TYPE x counter\nx 1\n");
}

TEST(Registry, AHistogramHasABucketForEachDoubling) {
  Registry registry;
  Histogram& histogram = registry.histogram("t", "Time.");
  for (int i = 1; i <= 1000; ++i) histogram.record(i / 1000.0);
  const std::string text = registry.prometheus_text();
  EXPECT_NE(text.find("t_bucket{le=\"0.25\"} 250\n"), std::string::npos) << text;
  EXPECT_NE(text.find("t_bucket{le=\"0.5\"} 500\n"), std::string::npos);
  EXPECT_NE(text.find("t_bucket{le=\"1\"} 1000\n"), std::string::npos);
  EXPECT_NE(text.find("t_bucket{le=\"2048\"} 1000\n"), std::string::npos);
  EXPECT_EQ(text.find("t_bucket{le=\"4096\"}"), std::string::npos);
  EXPECT_NEAR(histogram.sum(), 500.5, 1e-6);
}

TEST(Histogram, StrangeValuesAreCountedWithoutHarm) {
  Histogram histogram;
  histogram.record(-1);
  histogram.record(std::nan(""));
  histogram.record(0);
  histogram.record(1e-30);
  histogram.record(std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.bucket(0), 4u);
  EXPECT_EQ(histogram.bucket(Histogram::kBuckets - 1), 1u);
}

TEST(Registry, WhatAnInstrumentTellsIsShownUnderOtherNamesToo) {
  Registry registry;
  Counter& own = registry.counter("own_total", "own");
  Histogram& times = registry.histogram("own_seconds", "own");
  using Shown = Registry::Shown;
  registry.also("theirs_total", "theirs", {{"model", "a"}}, Shown::counter,
                [&] { return static_cast<double>(own.value()); });
  registry.also("theirs_now", "theirs", {}, Shown::gauge, [] { return 0.5; });
  registry.also("theirs:seconds", "theirs", {{"model", "a"}}, times);
  own.add(3);
  times.record(1);
  const std::string text = registry.prometheus_text();
  for (const char* line :
       {"# TYPE theirs_total counter\ntheirs_total{model=\"a\"} 3\n",
        "# TYPE theirs_now gauge\ntheirs_now 0.5\n", "# TYPE theirs:seconds histogram\n",
        "theirs:seconds_bucket{model=\"a\",le=\"1\"} 1\n", "theirs:seconds_count{model=\"a\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(times.count(), 1u);
  registry.also("theirs_now", "theirs", {}, Shown::gauge, [] { return 2.0; });
  EXPECT_NE(registry.prometheus_text().find("theirs_now 2\n"), std::string::npos)
      << "the later one";
}

TEST(Counter, ATotalThatIsCountedElsewhereNeverFalls) {
  Counter counter;
  counter.raise_to(7);
  counter.raise_to(5);
  EXPECT_EQ(counter.value(), 7u);
  SecondsCounter seconds;
  seconds.raise_to(0.5);
  seconds.raise_to(0.25);
  EXPECT_EQ(seconds.value(), 0.5);
}

TEST(Counter, ThreadsLoseNoCounts) {
  Registry registry;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) registry.counter("c_total", "c").add();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.counter("c_total", "c").value(), 20'000u);
}

}  // namespace
}  // namespace gpunode::telemetry
