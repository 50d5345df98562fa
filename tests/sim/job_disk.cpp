#include "tests/sim/job_disk.hpp"

#include <algorithm>

#include "tests/sim/job_world.hpp"
#include "tests/support/fault_file_system.hpp"

namespace gpunode::sim {
namespace {

const storage::Path kPath = "/job/votes";
constexpr std::uint64_t kChanges = 7;  // that a store makes, one more than there are

}  // namespace

VoteDisk::VoteDisk(Options options) : options_(options), rng_(options.seed) {
  GPUNODE_CHECK(files_.create_folder(kPath.parent_path()).has_value(), "a new disk is empty");
}

storage::DurableRecord VoteDisk::record(storage::FileSystem& files) const {
  return {files, kPath, {{'V', 'O', 'T', 'E'}, 1}};
}

// What a store leaves that does not sync the contents before the name.
void VoteDisk::store_unsynced(const Bytes& votes) {
  testing::MemoryFileSystem scratch;
  GPUNODE_CHECK(scratch.create_folder(kPath.parent_path()).has_value(), "a new disk is empty");
  GPUNODE_CHECK(record(scratch).store(votes).has_value(), "a new disk has space");
  const Bytes file = *scratch.read(kPath, storage::DurableRecord::kLimitBytes);
  storage::Path temporary = kPath;
  temporary += ".unsynced";
  (void)files_.remove(temporary);
  auto writer = files_.write_new(temporary);
  GPUNODE_CHECK(writer && (*writer)->append(file) && files_.rename(temporary, kPath) &&
                    files_.sync_folder(kPath.parent_path()),
                "a disk in memory does not fail");
}

void VoteDisk::store(const Bytes& votes) {
  if (options_.mutations.no_sync)
    store_unsynced(votes);
  else
    GPUNODE_CHECK(record(files_).store(votes).has_value(), "a disk in memory does not fail");
  answered_ = votes;
}

void VoteDisk::crash(const std::deque<Bytes>& under_way, std::size_t through) {
  std::size_t next = 0;
  while (next < through)
    GPUNODE_CHECK(record(files_).store(under_way[next++]).has_value(), "it has space");
  if (next < under_way.size()) {
    const Bytes& votes = under_way[next++];
    if (rng_.chance(options_.names_first)) {
      store_unsynced(votes);
      ++cut_;
    } else if (rng_.chance(0.8)) {
      testing::FaultFileSystem dying(files_);
      dying.die_after(rng_.below(kChanges));
      if (!record(dying).store(votes)) ++cut_;
    }
    lost_ += under_way.size() - next;
  }
  files_.crash(rng_);
}

Result<Bytes> VoteDisk::load() {
  auto votes = record(files_).load();
  if (!votes) ++torn_;
  if (!votes && !options_.mutations.torn_is_none) return votes.error();
  return votes && *votes ? **votes : Bytes{};
}

void VoteDisk::restore() {
  (void)files_.remove(kPath);
  if (!answered_.empty())
    GPUNODE_CHECK(record(files_).store(answered_).has_value(), "a disk in memory does not fail");
}

void VoteDisk::wipe() {
  (void)files_.remove(kPath);
  answered_.clear();
}

// ---- the world's part

void JobWorld::persist(std::size_t node, const job::Persist& write) {
  using namespace std::chrono_literals;
  Node& one = nodes_[node];
  checks_->on_persist(one.member, write.votes);
  one.unsynced.emplace_back(write.token, write.votes);
  const Duration slow = rng_.chance(0.02) ? between(50ms, 400ms) : between(1ms, 8ms);
  one.disk_free = std::max({one.disk_free, now_, one.votes_hang}) + slow;
  on_node(node, one.disk_free - now_, [this, node, token = write.token] {
    Node& self = nodes_[node];
    if (now_ < self.votes_fail) return fail_job(node);
    while (!self.unsynced.empty() && self.unsynced.front().first <= token) {
      disks_[node].store(self.unsynced.front().second);
      checks_->on_durable(id(node), self.unsynced.front().second);
      self.unsynced.pop_front();
    }
    feed(node, input_of(Answer::persisted),
         [&](job::Actions& out) { self.core->on_persisted(clock(node), token, out); });
    if (self.core) look(node);  // it may tell of more than at the last tick
  });
}

void JobWorld::lose_power(std::size_t node) {
  std::deque<Bytes> under_way;
  for (auto& [token, votes] : nodes_[node].unsynced) under_way.push_back(std::move(votes));
  nodes_[node].unsynced.clear();
  std::size_t through = 0;
  while (through < under_way.size() && rng_.chance(0.3)) ++through;
  disks_[node].crash(under_way, through);
}

// Whether the node can take part again: not with a vote file that is torn, until a person has put
// back a copy.
bool JobWorld::read_votes(std::size_t node) {
  VoteDisk& disk = disks_[node];
  auto found = disk.load();
  if (!found) {
    note(node, "its votes are torn");
    if (options_.names_first == 0)
      checks_->breach("13: a vote file is torn, though its disk does what it says");
    if (!calm_) return false;
    disk.restore();
    found = disk.load();
  }
  nodes_[node].votes = std::move(*found);
  checks_->on_reread(disk.answered(), nodes_[node].votes);
  if (nodes_[node].votes.empty()) return true;
  const auto votes = view::decode_votes(nodes_[node].votes);
  GPUNODE_CHECK(votes.has_value(), "a whole vote file holds votes");
  const view::Member& was = nodes_[node].member;
  checks_->on_restart({was.node, was.boot + 1}, *votes);
  disk.store(nodes_[node].votes);  // what it has read it may answer by
  return true;
}

void JobWorld::count_disk_faults() {
  for (const VoteDisk& disk : disks_) {
    result_.lost_votes += disk.lost();
    result_.cut_votes += disk.cut();
    result_.torn_votes += disk.torn();
  }
}

}  // namespace gpunode::sim
