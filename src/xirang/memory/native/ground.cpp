// The ground of the allocator: what a run allocates gets the addresses that were planned for it.
//
// Runtimes ask on the thread that runs, so what holds for a run is kept by thread. Between
// `xirang_begin` and `xirang_end` the k-th request gets the k-th slot of a plan, if it is no larger
// and nobody lives there; else the lowest gap of the lease. A run that goes by its plan stays in its
// lease, for the plan is held against the lease before it begins; one that does not may be larger
// than foreseen, and what finds no gap comes from the system, as does everything outside of runs,
// weights above all.
//
// Who lives is written down by arena, not by run: a block that outlives its run is never given to
// another, whatever a plan says. Nothing here relies on a plan being right.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "exported.hpp"
#include "ground.hpp"

namespace {

using xirang::kAlignment;

constexpr int kArenasMax = 1024;
constexpr int64_t kNotOfThisRun = -1;

int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// ------------------------------------------------------------------ what Python lays out

// How large each slot is, and on which other slots it stands; see xirang/memory/structure.py. What
// has a slot of no bytes comes from the system.
struct Structure {
  int64_t count;
  const int64_t* terms;         // six a slot: of 1, B, L, BL, BL², L²
  const int64_t* denominators;  // one a slot
  const int64_t* order;         // slots from the bottom up
  const int64_t* below_begins;  // count + 1, into below
  const int64_t* below;         // slots that live at the same time, lower down
  int64_t product_max;          // BL² up to which no sum of terms passes 64 bits
};

// One run: how it shall go, and how it went.
struct Run {
  int64_t arena;         // of xirang_add_arena
  int64_t floor_bytes;   // the bottom that holds the run's inputs
  int64_t lease_bytes;   // nothing is handed out beyond
  int64_t count;         // planned slots; 0 for none
  int64_t* sizes;        // of each, in the order of the requests
  int64_t* offsets;      // from the floor
  int64_t* events;       // bytes of a request, or -(number of the request freed) - 1
  int64_t events_max;    // 0: nothing is recorded
  int64_t refuse_at;     // the request that fails, for tests; -1 for none
  int64_t height_bytes;  // of the plan, floor included
  int64_t requests;
  int64_t hits;          // of them got their planned place
  int64_t events_count;
  int64_t alive_bytes;   // as asked for, without rounding
  int64_t alive_peak_bytes;
  int64_t reach_bytes;     // the highest end, floor included
  int64_t leftover_bytes;  // the highest end of what outlived the run; 0 if nothing did
  int64_t spilled_bytes;   // what came from the system, in sum
};

// ------------------------------------------------------------------ arenas

struct Block {
  int64_t begin, end, bytes, number;
};
constexpr Block kNothing = {0, 0, 0, kNotOfThisRun};

class Arena {
 public:
  Arena(int64_t number, char* base, int64_t size) : number(number), base_(base), size_(size) {}

  const int64_t number;  // never given to another

  bool holds(const void* address) const {
    const char* p = static_cast<const char*>(address);
    return p >= base_ && p < base_ + size_;
  }

  void* take(Run& run, int64_t bytes) {
    const int64_t size = rounded(bytes);
    const int64_t number = run.requests++;
    if (number < run.count && run.sizes[number] == 0) {
      ++run.hits;  // it outlives the run, so it shall not lie here
      return nullptr;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    int64_t begin = -1;
    if (number < run.count && size <= run.sizes[number]) {
      begin = run.floor_bytes + run.offsets[number];
      if (begin + size <= run.lease_bytes && is_free(begin, begin + size)) {
        ++run.hits;
      } else {
        begin = -1;
      }
    }
    // Above the plan first: a gap within may be somebody's planned place.
    if (begin < 0) begin = gap(run.height_bytes, run.lease_bytes, size);
    if (begin < 0) begin = gap(run.floor_bytes, run.lease_bytes, size);
    if (begin < 0) return nullptr;
    insert({begin, begin + size, bytes, number});
    run.reach_bytes = std::max(run.reach_bytes, begin + size);
    return base_ + begin;
  }

  // The block that begins there, which is gone afterwards; kNothing if there is none.
  Block give_back(const void* address) {
    const int64_t begin = static_cast<const char*>(address) - base_;
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = position(begin);
    if (found == live_.end() || found->begin != begin) return kNothing;
    const Block block = *found;
    live_.erase(found);
    return block;
  }

  void enter() {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++runs_;
  }

  bool is_idle() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return runs_ == 0 && live_.empty();
  }

  // The run has ended: how far up something still lives. From now on it belongs to no run.
  int64_t leave() {
    const std::lock_guard<std::mutex> guard(mutex_);
    --runs_;
    for (Block& block : live_) block.number = kNotOfThisRun;
    return live_.empty() ? 0 : live_.back().end;
  }

 private:
  using Place = std::vector<Block>::iterator;

  Place position(int64_t begin) {
    return std::lower_bound(live_.begin(), live_.end(), begin,
                            [](const Block& block, int64_t at) { return block.begin < at; });
  }

  bool is_free(int64_t begin, int64_t end) {
    const auto next = position(begin);
    if (next != live_.end() && next->begin < end) return false;
    return next == live_.begin() || std::prev(next)->end <= begin;
  }

  int64_t gap(int64_t from, int64_t to, int64_t size) {
    int64_t begin = from;
    for (const Block& block : live_) {
      if (block.end <= begin) continue;
      if (block.begin - begin >= size) break;
      begin = block.end;
    }
    return size <= to - begin ? begin : -1;
  }

  void insert(const Block& block) { live_.insert(position(block.begin), block); }

  char* const base_;
  const int64_t size_;
  std::mutex mutex_;
  std::vector<Block> live_;  // by address
  int runs_ = 0;             // that go on in it
};

std::atomic<Arena*> arenas[kArenasMax];
std::atomic<int> arenas_end{0};
std::mutex arenas_mutex;
std::vector<Arena*> retired;

int64_t arenas_made = 0;

// Null if it has been forgotten.
Arena* arena_numbered(int64_t number) {
  Arena* arena = arenas[number % kArenasMax].load(std::memory_order_acquire);
  return arena != nullptr && arena->number == number ? arena : nullptr;
}

thread_local Run* current = nullptr;

// What came from the system for the run of this thread, and still lives.
struct Spilled {
  void* address;
  int64_t bytes, number;
};
thread_local std::vector<Spilled> spilled;

Arena* arena_of(const void* address) {
  if (current != nullptr) {
    Arena* own = arena_numbered(current->arena);
    if (own->holds(address)) return own;
  }
  for (int i = 0, end = arenas_end.load(std::memory_order_acquire); i < end; ++i) {
    Arena* arena = arenas[i].load(std::memory_order_acquire);
    if (arena != nullptr && arena->holds(address)) return arena;
  }
  return nullptr;
}

void record(Run& run, int64_t event) {
  if (run.events_count < run.events_max) run.events[run.events_count] = event;
  ++run.events_count;
}

// The block that was given back; kNothing if it was none of this thread's run.
Block given_back(void* address) {
  if (Arena* arena = arena_of(address)) {
    const Block block = arena->give_back(address);
    const bool is_ours = current != nullptr && current->arena == arena->number;
    return is_ours ? block : kNothing;
  }
  Block block = kNothing;
  // At the end of a process weights are given back when `spilled` is gone already.
  if (current != nullptr) {
    const auto found = std::find_if(spilled.begin(), spilled.end(),
                                    [&](const Spilled& one) { return one.address == address; });
    if (found != spilled.end()) {
      block = {0, 0, found->bytes, found->number};
      spilled.erase(found);
    }
  }
  xirang::to_system(address);
  return block;
}

// What a slot takes: its polynomial, rounded up; never so large that sums of it pass 64 bits.
template <typename Integer>
int64_t evaluated(const int64_t* terms, int64_t denominator, const Integer* values) {
  constexpr Integer kMost = INT64_MAX / (1 << 20);
  Integer total = 0;
  for (int k = 0; k < 6; ++k) total += terms[k] * values[k];
  if (denominator != 1) total = (total + denominator - 1) / denominator;
  return rounded(static_cast<int64_t>(std::clamp<Integer>(total, 0, kMost)));
}

template <typename Integer>
int64_t placed(const Structure& plan, Integer b, Integer l, int64_t* sizes, int64_t* offsets) {
  const Integer values[6] = {1, b, l, b * l, b * l * l, l * l};
  int64_t height = 0;
  for (int64_t i = 0; i < plan.count; ++i) {
    const int64_t slot = plan.order[i];
    sizes[slot] = evaluated(plan.terms + 6 * slot, plan.denominators[slot], values);
    int64_t offset = 0;
    for (int64_t k = plan.below_begins[slot]; k < plan.below_begins[slot + 1]; ++k) {
      const int64_t lower = plan.below[k];
      offset = std::max(offset, offsets[lower] + sizes[lower]);
    }
    offsets[slot] = offset;
    height = std::max(height, offset + sizes[slot]);
  }
  return height;
}

}  // namespace

// ------------------------------------------------------------------ as runtimes ask

namespace xirang {

void* allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  Run* run = current;
  if (run == nullptr) return from_system(bytes);
  if (run->requests == run->refuse_at || bytes > SIZE_MAX / 4) {
    ++run->requests;
    refuse(bytes);
  }
  const int64_t size = static_cast<int64_t>(bytes);
  void* address = arena_numbered(run->arena)->take(*run, size);
  if (address == nullptr) {
    address = from_system(bytes);
    spilled.push_back({address, size, run->requests - 1});
    run->spilled_bytes += size;
  }
  run->alive_bytes += size;
  run->alive_peak_bytes = std::max(run->alive_peak_bytes, run->alive_bytes);
  if (run->events_max > 0) record(*run, size);
  return address;
}

void release(void* address) {
  if (address == nullptr) return;
  const Block block = given_back(address);
  Run* run = current;
  if (run == nullptr || block.number == kNotOfThisRun) return;
  run->alive_bytes -= block.bytes;
  if (run->events_max > 0) record(*run, -block.number - 1);
}

}  // namespace xirang

// ------------------------------------------------------------------ as Python calls it

// The number of a range of addresses; -1 if there are too many.
XIRANG_EXPORTED int64_t xirang_add_arena(void* base, int64_t size) {
  const std::lock_guard<std::mutex> guard(arenas_mutex);
  for (int i = 0; i < kArenasMax; ++i) {
    if (arenas[i].load() != nullptr) continue;
    const int64_t number = i + kArenasMax * arenas_made++;
    arenas[i].store(new Arena(number, static_cast<char*>(base), size));
    if (i >= arenas_end.load()) arenas_end.store(i + 1);
    return number;
  }
  return -1;
}

// Forget a range; false if something still lives or runs there, for then it has to stay.
XIRANG_EXPORTED bool xirang_remove_arena(int64_t number) {
  const std::lock_guard<std::mutex> guard(arenas_mutex);
  Arena* arena = arena_numbered(number);
  if (arena == nullptr) return true;
  if (!arena->is_idle()) return false;
  arenas[number % kArenasMax].store(nullptr);
  // Another thread may just be asking it whether it holds an address.
  retired.push_back(arena);
  return true;
}

// The sizes and offsets of a run's slots, and the height of all.
XIRANG_EXPORTED int64_t xirang_place(const Structure* plan, int64_t rows, int64_t length,
                                     int64_t* sizes, int64_t* offsets) {
  // Nobody runs that much, and products of three stay far from the end of 128 bits.
  constexpr int64_t kMost = 1 << 24;
  rows = std::clamp<int64_t>(rows, 0, kMost);
  length = std::clamp<int64_t>(length, 0, kMost);
  const __int128 product = static_cast<__int128>(rows) * length * length;
  if (product <= plan->product_max) return placed<int64_t>(*plan, rows, length, sizes, offsets);
  return placed<__int128>(*plan, rows, length, sizes, offsets);
}

// From now on this thread's requests belong to the run. Without a plan `structure` is null. False,
// and nothing has begun, if the plan is higher than the lease, or the arena is gone.
XIRANG_EXPORTED bool xirang_begin(Run* run, const Structure* structure, int64_t rows,
                                  int64_t length) {
  run->requests = run->hits = run->events_count = 0;
  run->alive_bytes = run->alive_peak_bytes = run->leftover_bytes = run->spilled_bytes = 0;
  run->height_bytes = run->reach_bytes = run->floor_bytes;
  run->count = structure == nullptr ? 0 : structure->count;
  if (structure != nullptr)
    run->height_bytes += xirang_place(structure, rows, length, run->sizes, run->offsets);
  if (run->height_bytes > run->lease_bytes) return false;
  const std::lock_guard<std::mutex> guard(arenas_mutex);
  Arena* arena = arena_numbered(run->arena);
  if (arena == nullptr) return false;
  arena->enter();
  current = run;
  return true;
}

XIRANG_EXPORTED void xirang_end() {
  Run* run = current;
  if (run == nullptr) return;
  current = nullptr;
  spilled.clear();
  run->leftover_bytes = arena_numbered(run->arena)->leave();
}

// For tests: what a runtime would call.
XIRANG_EXPORTED void* xirang_allocate(size_t bytes) {
  try {
    return xirang::allocate(bytes);
  } catch (const std::exception&) {
    return nullptr;
  }
}

XIRANG_EXPORTED void xirang_release(void* address) { xirang::release(address); }
