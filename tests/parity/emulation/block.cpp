#include "tests/parity/emulation/block.hpp"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/parity/emulation/cuda_runtime_api.h"

// The linker's names for the section in which __shared__ puts static arrays, see fill_static().
extern "C" char __start_emulated_shared[] __attribute__((weak));
extern "C" char __stop_emulated_shared[] __attribute__((weak));

namespace gpunode::emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSharedPages = 26 * kPage;  // at least kLargestShared
constexpr int kNotANumber = 0xff;                 // four of these bytes are a float32 NaN

thread_local Block* running = nullptr;

struct Range {
  char *start = nullptr, *stop = nullptr;
};

// This thread's copy of the static __shared__ arrays. They are thread-local variables in a section
// of their own; the linker tells where that lies in the image of thread-local storage, and the
// loader where this thread's copy of the image is.
int find_static(dl_phdr_info* loaded, std::size_t, void* found) {
  for (int i = 0; i < loaded->dlpi_phnum; ++i) {
    const auto& header = loaded->dlpi_phdr[i];
    char* image = reinterpret_cast<char*>(loaded->dlpi_addr + header.p_vaddr);
    if (header.p_type != PT_TLS || __start_emulated_shared < image ||
        __stop_emulated_shared > image + header.p_memsz)
      continue;
    auto& range = *static_cast<Range*>(found);
    range.start = static_cast<char*>(loaded->dlpi_tls_data) + (__start_emulated_shared - image);
    range.stop = range.start + (__stop_emulated_shared - __start_emulated_shared);
    return 1;
  }
  return 0;
}

// g++ 12 leaves arrays of templates and inline functions out of the section: those start as zero.
void fill_static() {
  if (!__start_emulated_shared) return;
  thread_local Range range;
  if (!range.start) dl_iterate_phdr(find_static, &range);
  std::memset(range.start, kNotANumber, static_cast<std::size_t>(range.stop - range.start));
}

std::string told(Site site) {
  const char* name = std::strrchr(site.file, '/');
  return std::string(name ? name + 1 : site.file) + ":" + std::to_string(site.line);
}

void land(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.read);
  std::memset(copy.to + copy.read, 0, copy.bytes - copy.read);
}

}  // namespace

Block& here() {
  if (!running) std::abort();  // a CUDA function outside a kernel
  return *running;
}

Block::~Block() {
  if (shared_) munmap(shared_, kSharedPages + kPage);
}

void Block::prepare_shared(std::size_t bytes) {
  if (!shared_) {
    void* memory = mmap(nullptr, kSharedPages + kPage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    shared_ = static_cast<std::byte*>(memory);
    mprotect(shared_ + kSharedPages, kPage, PROT_NONE);
  }
  shared_bytes_ = bytes;
  shared_start_ = shared_ + kSharedPages - (bytes + 127) / 128 * 128;
  std::memset(shared_start_, kNotANumber, bytes);
}

void Block::prepare(const Launch& launch, unsigned index) {
  launch_ = &launch;
  report_ = {};
  failed_ = false;
  random_.seed(settings_.seed * 0x9e3779b97f4a7c15 + index);
  while (lanes_.size() < launch.threads) lanes_.push_back(std::make_unique<Lane>());
  stacks_.reserve(launch.threads);
  for (unsigned i = 0; i < launch.threads; ++i) {
    Lane& lane = *lanes_[i];
    lane.state = Lane::State::ready;
    lane.open.clear();
    lane.groups.clear();
    lane.fibre.prepare(stacks_.top(i), &Block::enter, this);
  }
  prepare_shared(launch.shared_bytes);
  fill_static();
  blockIdx = {index, 0, 0};
  blockDim = {launch.threads, 1, 1};
  gridDim = {launch.blocks, 1, 1};
}

void Block::enter(void* block) {
  Block& self = *static_cast<Block*>(block);
  self.launch_->run();
  self.lanes_[self.current_]->state = Lane::State::left;
}

Report Block::run(const Launch& launch, unsigned index, const Settings& settings) {
  settings_ = settings;
  prepare(launch, index);
  running = this;
  for (;;) {
    const int warp = choose_warp();
    if (warp >= 0) {
      run_warp(static_cast<unsigned>(warp));
    } else {
      const auto is_left = [](const auto& lane) { return lane->state == Lane::State::left; };
      if (std::all_of(lanes_.begin(), lanes_.begin() + launch.threads, is_left)) break;
      release_barrier();
    }
    if (failed_) break;
  }
  running = nullptr;
  if (failed_) report_.error = "block " + std::to_string(index) + ": " + report_.error;
  return std::move(report_);
}

bool Block::can_run(unsigned warp) const {
  const unsigned end = std::min(launch_->threads, (warp + 1) * kWarp);
  for (unsigned i = warp * kWarp; i < end; ++i)
    if (lanes_[i]->state == Lane::State::ready) return true;
  return false;
}

int Block::choose_warp() {
  const unsigned warps = (launch_->threads + kWarp - 1) / kWarp;
  const unsigned start =
      settings_.schedule == Schedule::random ? static_cast<unsigned>(random_() % warps) : 0;
  for (unsigned i = 0; i < warps; ++i) {
    unsigned warp = (start + i) % warps;
    if (settings_.schedule == Schedule::last_warp) warp = warps - 1 - warp;
    if (can_run(warp)) return static_cast<int>(warp);
  }
  return -1;
}

// Each lane of the warp to its next rendezvous, and the operations for which all have come.
void Block::run_warp(unsigned warp) {
  const unsigned count = std::min(kWarp, launch_->threads - warp * kWarp);
  const unsigned turn =
      settings_.schedule == Schedule::random ? static_cast<unsigned>(random_() % count) : 0;
  for (unsigned i = 0; i < count; ++i) {
    unsigned lane = (turn + i) % count;
    if (settings_.schedule == Schedule::last_warp) lane = count - 1 - lane;
    current_ = warp * kWarp + lane;
    if (lanes_[current_]->state != Lane::State::ready) continue;
    threadIdx = {current_, 0, 0};
    lanes_[current_]->fibre.resume();
    if (failed_) return;
  }
  if (!perform_complete(warp)) say_stuck(warp);
}

// True if operations were performed, or every lane waits at a barrier or has left.
bool Block::perform_complete(unsigned warp) {
  Lane* lanes[kWarp] = {};
  bool any = false, waiting = false;
  for (unsigned i = 0; i < kWarp && warp * kWarp + i < launch_->threads; ++i)
    lanes[i] = lanes_[warp * kWarp + i].get();
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!lanes[i] || lanes[i]->state != Lane::State::at_operation) continue;
    const Meeting first = lanes[i]->meeting;
    bool complete = true;
    void* slots[kWarp] = {};
    for (unsigned other = 0; other < kWarp; ++other) {
      if (!(first.mask >> other & 1)) continue;
      const Lane* lane = lanes[other];
      complete &= lane && lane->state == Lane::State::at_operation && lane->meeting == first;
      if (lane) slots[other] = lane->slot;
    }
    waiting |= !complete;
    if (!complete) continue;
    first.perform(slots, first.mask);
    ++report_.warp_operations;
    any = true;
    for (unsigned other = 0; other < kWarp; ++other)
      if (first.mask >> other & 1) lanes[other]->state = Lane::State::ready;
    if (failed_) return true;
  }
  return any || !waiting;
}

void Block::say_stuck(unsigned warp) {
  std::set<std::string> places;
  for (unsigned i = warp * kWarp; i < std::min(launch_->threads, (warp + 1) * kWarp); ++i) {
    const Lane& lane = *lanes_[i];
    places.insert(lane.state == Lane::State::left ? "the kernel's end" : told(lane.meeting.site));
  }
  std::string message = "lanes of warp " + std::to_string(warp) + " are at different operations:";
  for (const std::string& place : places) message += " " + place;
  report_.error = message;
  failed_ = true;
}

// Called when no lane can go on: all that have not left must be at one barrier.
void Block::release_barrier() {
  const Lane* first = nullptr;
  for (unsigned i = 0; i < launch_->threads; ++i) {
    const Lane& lane = *lanes_[i];
    if (lane.state == Lane::State::left) continue;
    if (!first) first = &lane;
    if (lane.state != Lane::State::at_barrier || !(lane.meeting.site == first->meeting.site)) {
      report_.error = "threads of a block wait at different places: " + told(first->meeting.site) +
                      " and " + told(lane.meeting.site);
      failed_ = true;
      return;
    }
  }
  ++report_.barriers;
  for (unsigned i = 0; i < launch_->threads; ++i)
    if (lanes_[i]->state == Lane::State::at_barrier) lanes_[i]->state = Lane::State::ready;
}

bool Block::weakened(Site site, Weakness weakness) {
  const Point point = {site.line, weakness};
  if (current_ == 0) report_.points.insert(point);
  return settings_.weakened == point;
}

void Block::pause(Lane::State state, const Meeting& meeting) {
  Lane& lane = *lanes_[current_];
  lane.state = state;
  lane.meeting = meeting;
  lane.fibre.pause();
}

void meet(Perform perform, void* slot, unsigned mask, Site site) {
  Block& block = here();
  Lane& lane = *block.lanes_[block.current_];
  if (!(mask >> lane_number() & 1)) fail(told(site) + ": a lane is not in its own mask");
  lane.slot = slot;
  block.pause(Lane::State::at_operation, {perform, mask, site});
}

void block_barrier(Site site) {
  Block& block = here();
  if (block.weakened(site, Weakness::barrier)) return;
  block.pause(Lane::State::at_barrier, {nullptr, 0, site});
}

unsigned lane_number() {
  return here().current_ % kWarp;
}

void fail(std::string message) {
  Block& block = here();
  block.report_.error = std::move(message);
  block.failed_ = true;
  block.lanes_[block.current_]->fibre.pause();
  std::abort();
}

std::byte* dynamic_shared() {
  return here().shared_start_;
}

std::byte* shared_at(unsigned offset, std::size_t bytes, Site site) {
  Block& block = here();
  if (offset % bytes != 0 || offset + bytes > block.shared_bytes_)
    fail(told(site) + ": shared memory at " + std::to_string(offset) + " of " +
         std::to_string(block.shared_bytes_));
  return block.shared_start_ + offset;
}

void count_bank_conflicts(std::uint64_t passes) {
  here().report_.bank_conflicts += passes;
}

void copy_async(std::byte* to, const void* from, unsigned bytes, unsigned read, Site site) {
  Block& block = here();
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0 || read > bytes)
    fail(told(site) + ": an asynchronous copy of " + std::to_string(read) + " bytes of " +
         std::to_string(bytes) + " from an address that is not aligned to them");
  const Copy copy = {to, from, bytes, read};
  if (block.settings_.landing == Landing::at_once) return land(copy);
  std::memset(to, kNotANumber, bytes);
  block.lanes_[block.current_]->open.push_back(copy);
}

void commit_copies(Site site) {
  Block& block = here();
  if (block.weakened(site, Weakness::commit)) return;
  Lane& lane = *block.lanes_[block.current_];
  lane.groups.push_back(std::move(lane.open));
  lane.open.clear();
}

void await_copies(unsigned left, Site site) {
  Block& block = here();
  left += block.weakened(site, Weakness::wait);
  auto& groups = block.lanes_[block.current_]->groups;
  if (groups.size() <= left) return;
  const auto end = groups.end() - left;
  for (auto group = groups.begin(); group != end; ++group)
    for (const Copy& copy : *group) land(copy);
  groups.erase(groups.begin(), end);
}

}  // namespace gpunode::emulation
