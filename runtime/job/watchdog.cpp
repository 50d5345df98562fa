#include "runtime/job/watchdog.hpp"

#include <algorithm>

#include "runtime/job/detail/report_text.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kLongestTick = std::chrono::seconds(1);

std::string_view name_of(Watchdog::Work work) {
  switch (work) {
    case Watchdog::Work::compute:
      return "its compute, or the data for it,";
    case Watchdog::Work::apply:
      return "its update of the weights";
    default:
      return "its loading of a state";
  }
}
}  // namespace

std::string_view to_string(Watchdog::Work work) {
  switch (work) {
    case Watchdog::Work::compute:
      return "compute";
    case Watchdog::Work::apply:
      return "apply";
    default:
      return "install";
  }
}

std::string Watchdog::Hang::text() const {
  const std::string often =
      usual > Duration{} ? "it usually takes " + seconds_text(usual) : "it was never done here yet";
  return std::string(name_of(work)) + " has not answered for " + seconds_text(lasts) + " (" +
         often + ")";
}

void Watchdog::asked(Work work, Time now, Duration extra) {
  Watch& watch = of(work);
  // Who hangs and is asked again, by another view, has still not answered the first time.
  if (!watch.waits) {
    watch.asked = now;
    watch.silence = {};
  }
  watch.waits = true;
  watch.extra = extra;
}

void Watchdog::progressed(Work work) {
  of(work).silence = {};
  of(work).hangs = false;
}

void Watchdog::done(Work work, Time now) {
  Watch& watch = of(work);
  if (watch.waits && !watch.hangs) {
    const Duration took = now - watch.asked;
    watch.usual = watch.usual == Duration{} ? took : watch.usual + (took - watch.usual) / 8;
  }
  watch.waits = watch.hangs = false;
}

Duration Watchdog::allowed(const Watch& watch) const {
  const Duration least = watch.usual == Duration{} ? timings_.first : timings_.least;
  return std::max(least, timings_.multiple * watch.usual) + watch.extra;
}

std::optional<Watchdog::Hang> Watchdog::on_tick(Time now) {
  const Duration passed = std::min(now - ticked_.value_or(now), kLongestTick);
  ticked_ = now;
  std::optional<Hang> begun;
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    Watch& watch = watches_[i];
    if (!watch.waits) continue;
    watch.silence += passed;
    if (watch.hangs || watch.silence < allowed(watch)) continue;
    watch.hangs = true;
    begun = Hang{static_cast<Work>(i), watch.silence, watch.usual};
  }
  return begun;
}

std::optional<Watchdog::Hang> Watchdog::hang() const {
  for (std::size_t i = 0; i < watches_.size(); ++i)
    if (watches_[i].hangs)
      return Hang{static_cast<Work>(i), watches_[i].silence, watches_[i].usual};
  return std::nullopt;
}

}  // namespace gpunode::job
