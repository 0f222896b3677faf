// Searches for a plan no higher than a given height: what core/memory/skyline.py does, with two ideas
// more, at the speed of C.
//
// A block passed over may not stay where it is, since plans are built from below: it has to be lifted
// by a neighbour that still waits, at least to the lowest top among those. And as soon as what waits
// falls into parts that never meet in time, each is searched alone: when one has no plan, nothing
// that was chosen in another could have helped.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using Blocks = std::vector<int>;
constexpr int64_t NOWHERE = std::numeric_limits<int64_t>::max() / 4;

class Search {
 public:
  Search(int count, const int64_t* starts, const int64_t* ends, const int64_t* sizes,
         const int64_t* ranks, int64_t height, int64_t steps_max)
      : starts_(starts), ends_(ends), sizes_(sizes), ranks_(ranks), height_(height),
        steps_max_(steps_max), offsets(count), floors_(count), lows_(count), waits_(count, 1),
        near_(count), first_(count, count), last_(count, 0) {
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count; j++)
        if (i != j && starts[i] < ends[j] && starts[j] < ends[i]) near_[i].push_back(j);
    find_sections(count);
  }

  // 1: `offsets` hold a plan. 0: there was no more time. -1: there is no plan.
  int run() {
    Blocks all(offsets.size());
    for (size_t i = 0; i < all.size(); i++) all[i] = static_cast<int>(i);
    std::sort(all.begin(), all.end(), [this](int i, int j) { return starts_[i] < starts_[j]; });
    if (place_parts(all, 0, -1)) return 1;
    return steps > steps_max_ ? 0 : -1;
  }

 private:
  struct Raised { int block; int64_t floor; };

  // The sets of blocks that live together, none a part of the one before or after.
  void find_sections(int count) {
    Blocks order(count);
    for (int i = 0; i < count; i++) order[i] = i;
    std::sort(order.begin(), order.end(), [this](int i, int j) { return starts_[i] < starts_[j]; });
    Blocks living;
    for (int next = 0; next < count;) {
      const int64_t now = starts_[order[next]];
      auto is_dead = [&](int i) { return ends_[i] <= now; };
      living.erase(std::remove_if(living.begin(), living.end(), is_dead), living.end());
      int64_t death = NOWHERE;
      for (; next < count && starts_[order[next]] == now; next++) living.push_back(order[next]);
      for (int i : living) death = std::min(death, ends_[i]);
      // While nobody dies the set only grows: the last of such sets stands for all of them.
      if (next == count || starts_[order[next]] >= death) sections_.push_back(living);
    }
    for (int s = 0; s < static_cast<int>(sections_.size()); s++)
      for (int i : sections_[s]) {
        first_[i] = std::min(first_[i], s);
        last_[i] = std::max(last_[i], s + 1);
      }
  }

  // Plans for blocks in the order of their births, part by part; the smaller parts fail sooner.
  bool place_parts(const Blocks& blocks, int64_t level, int64_t rank) {
    std::vector<Blocks> parts;
    int64_t end = -NOWHERE;
    for (int i : blocks) {
      if (starts_[i] >= end) parts.emplace_back();
      parts.back().push_back(i);
      end = std::max(end, ends_[i]);
    }
    if (parts.size() > 1)
      std::sort(parts.begin(), parts.end(),
                [](const Blocks& a, const Blocks& b) { return a.size() < b.size(); });
    for (size_t k = 0; k < parts.size(); k++)
      if (!place(parts[k], level, rank)) {
        while (k-- > 0) take_back(parts[k]);
        return false;
      }
    return true;
  }

  // A plan for blocks that hang together, the next one no lower than the level.
  bool place(const Blocks& blocks, int64_t level, int64_t rank) {
    steps += static_cast<int64_t>(blocks.size());
    if (steps > steps_max_ || !find_lows(blocks, level, rank) || !fits(blocks)) return false;
    for (int block : candidates(blocks, level, rank)) {
      if (place_one(block, blocks)) return true;
      if (steps > steps_max_) return false;
    }
    return false;
  }

  bool may_come(int i, int64_t level, int64_t rank) const {
    // Of blocks side by side at one level, one order stands for all.
    return floors_[i] > level || (floors_[i] == level && ranks_[i] > rank);
  }

  // The lowest place of each block that waits; false if one has none.
  bool find_lows(const Blocks& blocks, int64_t level, int64_t rank) {
    for (int i : blocks) {
      int64_t low = floors_[i];
      if (!may_come(i, level, rank)) {
        low = NOWHERE;
        for (int j : near_[i])
          if (waits_[j]) low = std::min(low, std::max(floors_[j], level) + sizes_[j]);
        steps += static_cast<int64_t>(near_[i].size()) / 4;
      }
      if (low > height_ - sizes_[i]) return false;
      lows_[i] = low;
    }
    return true;
  }

  // Whether in each section what waits fits above the lowest place for any of it.
  bool fits(const Blocks& blocks) {
    int begin = static_cast<int>(sections_.size()), end = 0;
    for (int i : blocks) {
      begin = std::min(begin, first_[i]);
      end = std::max(end, last_[i]);
    }
    for (int s = begin; s < end; s++) {
      int64_t low = NOWHERE, load = 0;
      for (int i : sections_[s])
        if (waits_[i]) {
          low = std::min(low, lows_[i]);
          load += sizes_[i];
        }
      if (load && low + load > height_) return false;
    }
    return true;
  }

  // Who may come next, the most promising first.
  Blocks candidates(const Blocks& blocks, int64_t level, int64_t rank) const {
    int64_t lowest_top = NOWHERE;
    for (int i : blocks) lowest_top = std::min(lowest_top, lows_[i] + sizes_[i]);
    Blocks found;
    for (int i : blocks)
      // Above the lowest top another could have lain under it: that one comes first.
      if (floors_[i] < lowest_top && may_come(i, level, rank)) found.push_back(i);
    std::sort(found.begin(), found.end(), [this](int i, int j) {
      return floors_[i] != floors_[j] ? floors_[i] < floors_[j] : ranks_[i] < ranks_[j];
    });
    for (int i : found)
      // All it meets has its place: no other choice is better than to put it down now.
      if (std::none_of(near_[i].begin(), near_[i].end(), [this](int j) { return waits_[j]; }))
        return {i};
    return found;
  }

  bool place_one(int block, const Blocks& blocks) {
    const int64_t level = floors_[block], top = level + sizes_[block];
    std::vector<Raised> raised;
    bool has_room = true;
    waits_[block] = 0;
    for (int j : near_[block])
      if (waits_[j] && floors_[j] < top) {
        raised.push_back({j, floors_[j]});
        floors_[j] = top;
        has_room = has_room && top + sizes_[j] <= height_;
      }
    if (has_room) {
      Blocks rest;
      rest.reserve(blocks.size());
      for (int i : blocks)
        if (i != block) rest.push_back(i);
      offsets[block] = level;
      if (place_parts(rest, level, ranks_[block])) return true;
    }
    for (const Raised& each : raised) floors_[each.block] = each.floor;
    waits_[block] = 1;
    return false;
  }

  // As if a part that has a plan had none.
  void take_back(const Blocks& part) {
    for (int i : part) waits_[i] = 1;
    for (int i : part) {
      floors_[i] = 0;
      for (int j : near_[i])
        if (!waits_[j]) floors_[i] = std::max(floors_[i], offsets[j] + sizes_[j]);
    }
  }

  const int64_t *starts_, *ends_, *sizes_, *ranks_;
  const int64_t height_, steps_max_;

 public:
  std::vector<int64_t> offsets;
  int64_t steps = 0;  // looks at a block

 private:
  std::vector<int64_t> floors_, lows_;  // where a block would rest; what it cannot lie below
  std::vector<char> waits_;
  std::vector<Blocks> near_, sections_;
  Blocks first_, last_;  // of the sections that a block is in
};

}  // namespace

// Looks for offsets of at most `height`; of blocks with equal offsets those of lower rank come first.
// Returns 1 if there are some, 0 if the steps are used up, -1 if there are none.
extern "C" int xirang_search(int64_t count, const int64_t* starts, const int64_t* ends,
                             const int64_t* sizes, const int64_t* ranks, int64_t height,
                             int64_t steps_max, int64_t* offsets, int64_t* steps) {
  Search search(static_cast<int>(count), starts, ends, sizes, ranks, height, steps_max);
  const int found = search.run();
  if (found == 1) std::copy(search.offsets.begin(), search.offsets.end(), offsets);
  *steps = search.steps;
  return found;
}
