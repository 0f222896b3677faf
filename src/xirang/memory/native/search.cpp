// Searches for a plan no higher than a given height, as core/memory/skyline.py does, step for step,
// at the speed of C. What is done, and why, is said there; the names are the same.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "exported.hpp"

namespace {

using Blocks = std::vector<int>;
constexpr int64_t NOWHERE = std::numeric_limits<int64_t>::max() / 4;
constexpr int64_t LOOK = 20;  // as there, for the steps to be the same

class Search {
 public:
  Search(int count, const int64_t* starts, const int64_t* ends, const int64_t* sizes,
         const int64_t* ranks, int64_t height, bool is_wary)
      : sizes_(sizes), height_(height), is_wary_(is_wary), first_(count), last_(count),
        barred_(count, -1), tried_(count), offsets(count) {
    Blocks order(count);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [starts](int i, int j) { return starts[i] < starts[j]; });
    find_sections(order, starts, ends);
    valley_of_.resize(sections_.size());
    counts_.resize(sections_.size() + 1);
    std::sort(order.begin(), order.end(), [ranks](int i, int j) { return ranks[i] < ranks[j]; });
    order_ = std::make_shared<const Blocks>(std::move(order));
  }

  // 1: `offsets` hold a plan. 0: there was no more time. -1: there is no plan.
  int run(int64_t steps_max) {
    for (const Section& section : sections_)
      if (section.load > height_) return -1;
    add({order_, 0, 0, static_cast<int>(sections_.size()), 0, 0}, order_->size(), height_);
    while (!agenda_.empty()) {
      const Part part = std::move(agenda_.back());
      agenda_.pop_back();
      while (choices_.size() > part.depth) choices_.pop_back();
      steps += static_cast<int64_t>(part.blocks->size()) + part.end - part.begin + LOOK;
      if (steps > steps_max) return 0;
      if (!look_at(part) && !go_on()) return -1;
    }
    return 1;
  }

 private:
  struct Section {
    int64_t floor, load;
    int crossing;
  };
  struct Part {
    std::shared_ptr<const Blocks> blocks;
    size_t waiting;
    int begin, end;
    int64_t ceiling;
    size_t depth;
  };
  struct Valley {
    int begin, end;
    int64_t floor, brim, least;
  };
  struct Mark { size_t saved, bars; };
  struct Saved {
    int begin, end;
    int64_t floor;
    int block;
  };
  struct Bar {
    int block;
    int64_t level, tried;
  };
  struct Choice {
    Part part;
    int section;
    Blocks answers;
    bool may_be_nobody;
    Mark mark;
    size_t agenda, tried;
  };

  void find_sections(const Blocks& by_start, const int64_t* starts, const int64_t* ends) {
    Blocks living;
    for (size_t next = 0; next < by_start.size();) {
      const int64_t now = starts[by_start[next]];
      auto is_dead = [&](int i) { return ends[i] <= now; };
      living.erase(std::remove_if(living.begin(), living.end(), is_dead), living.end());
      const int number = static_cast<int>(sections_.size());
      for (; next < by_start.size() && starts[by_start[next]] == now; next++) {
        living.push_back(by_start[next]);
        first_[by_start[next]] = number;
      }
      int64_t death = NOWHERE;
      for (int i : living) death = std::min(death, ends[i]);
      // While nobody dies the set only grows: the last of such sets stands for all of them.
      if (next < by_start.size() && starts[by_start[next]] < death) continue;
      sections_.push_back({0, 0, 0});
      for (int i : living) {
        sections_[number].load += sizes_[i];
        if (first_[i] < number) sections_[number - 1].crossing++;
        last_[i] = number;
      }
    }
  }

  void add(const Part& part, size_t waiting, int64_t ceiling) {
    std::vector<int> edges{part.begin};
    for (int s = part.begin; s + 1 < part.end; s++)
      if (!sections_[s].crossing) edges.push_back(s + 1);
    if (edges.size() == 1 && 4 * waiting > 3 * part.blocks->size()) {
      agenda_.push_back({part.blocks, waiting, part.begin, part.end, ceiling, choices_.size()});
      return;
    }
    std::vector<Blocks> pieces(edges.size());
    for (int i : *part.blocks)
      if (waits(i)) {
        const auto after = std::upper_bound(edges.begin(), edges.end(), first_[i]);
        pieces[after - edges.begin() - 1].push_back(i);
      }
    const size_t before = agenda_.size();
    edges.push_back(part.end);
    for (size_t k = 0; k < pieces.size(); k++) {
      if (pieces[k].empty()) continue;
      const size_t count = pieces[k].size();
      auto blocks = std::make_shared<const Blocks>(std::move(pieces[k]));
      agenda_.push_back({blocks, count, edges[k], edges[k + 1], ceiling, choices_.size()});
    }
    std::stable_sort(agenda_.begin() + before, agenda_.end(), [](const Part& a, const Part& b) {
      return a.blocks->size() > b.blocks->size();
    });
  }

  bool look_at(const Part& part) {
    if (put_lids(part)) return true;
    find_valleys(part);
    find_resting(part);
    bool is_barren = false;
    for (const Valley& valley : valleys_)
      if (valley.least == NOWHERE) {
        if (!fill(valley, part)) return false;
        is_barren = true;
      }
    if (is_barren) {
      agenda_.push_back(part);
      return true;
    }
    const auto [section, may_be_nobody] = hardest(part);
    if (section < 0) return false;
    Blocks answers;
    for (int i : resting_)
      if (first_[i] <= section && section <= last_[i]) answers.push_back(i);
    const Mark mark{saved_.size(), bars_.size()};
    choices_.push_back({part, section, answers, may_be_nobody, mark, agenda_.size(), 0});
    return false;
  }

  bool put_lids(const Part& part) {
    int64_t ceiling = part.ceiling;
    size_t waiting = part.waiting;
    for (int i : *part.blocks) {
      if (first_[i] > part.begin || last_[i] + 1 < part.end || !waits(i)) continue;
      ceiling -= sizes_[i];
      offsets[i] = ceiling;
      waiting--;
      leave(i, 0, 0);
    }
    if (waiting == part.waiting) return false;
    add(part, waiting, ceiling);
    return true;
  }

  void find_valleys(const Part& part) {
    valleys_.clear();
    int64_t left = NOWHERE;
    for (int begin = part.begin, end; begin < part.end; begin = end) {
      const int64_t floor = sections_[begin].floor;
      for (end = begin + 1; end < part.end && sections_[end].floor == floor;) end++;
      const int64_t right = end < part.end ? sections_[end].floor : NOWHERE;
      const bool is_valley = left > floor && floor < right;
      const int number = is_valley ? static_cast<int>(valleys_.size()) : -1;
      std::fill(valley_of_.begin() + begin, valley_of_.begin() + end, number);
      if (is_valley) valleys_.push_back({begin, end, floor, std::min(left, right), NOWHERE});
      left = floor;
    }
  }

  // Who may lie on the floor of a valley. `counts_`: how many more cover a section than the last.
  void find_resting(const Part& part) {
    resting_.clear();
    std::fill(counts_.begin() + part.begin, counts_.begin() + part.end + 1, 0);
    for (int i : *part.blocks) {
      const int number = valley_of_[first_[i]];
      if (number < 0 || number != valley_of_[last_[i]]) continue;
      Valley& valley = valleys_[number];
      if (barred_[i] >= valley.floor) continue;
      valley.least = std::min(valley.least, sizes_[i]);
      resting_.push_back(i);
      counts_[first_[i]]++;
      counts_[last_[i] + 1]--;
    }
  }

  bool fill(const Valley& valley, const Part& part) {
    for (int s = valley.begin; s < valley.end; s++)
      if (valley.brim + sections_[s].load > part.ceiling) return false;
    for (int i : *part.blocks) {
      if (first_[i] < valley.begin || last_[i] >= valley.end || !waits(i)) continue;
      if (tried_[i] + sizes_[i] <= valley.brim) return false;
      bar(i, valley.brim, tried_[i]);
    }
    saved_.push_back({valley.begin, valley.end, valley.floor, -1});
    for (int s = valley.begin; s < valley.end; s++) sections_[s].floor = valley.brim;
    return true;
  }

  std::pair<int, bool> hardest(const Part& part) const {
    std::pair<int, bool> found{-1, false};
    std::pair<int64_t, int64_t> fewest{NOWHERE, NOWHERE};
    int64_t count = 0;
    for (int s = part.begin; s < part.end; s++) {
      count += counts_[s];
      if (valley_of_[s] < 0) continue;
      const Valley& valley = valleys_[valley_of_[s]];
      const int64_t gap = std::min(valley.brim - valley.floor, valley.least);
      const bool may_be_nobody = valley.floor + gap + sections_[s].load <= part.ceiling;
      if (!count && !may_be_nobody) return {-1, false};
      if (!count) continue;
      int64_t answers = count + may_be_nobody;
      if (is_wary_ && may_be_nobody) answers *= answers;
      const std::pair<int64_t, int64_t> few{answers, valley.floor};
      if (few >= fewest) continue;
      fewest = few;
      found = {s, may_be_nobody};
    }
    return found;
  }

  bool go_on() {
    if (choices_.empty()) return false;
    Choice& choice = choices_.back();
    take_back(choice.mark);
    while (agenda_.size() > choice.agenda) agenda_.pop_back();
    if (choice.tried == choice.answers.size()) {
      const int64_t floor = sections_[choice.section].floor;
      for (int block : choice.answers) bar(block, floor, floor);
      agenda_.push_back(std::move(choice.part));
      choices_.pop_back();
      return true;
    }
    const int block = choice.answers[choice.tried++];
    const Part part = choice.part;
    if (choice.tried == choice.answers.size() && !choice.may_be_nobody) choices_.pop_back();
    lay(block, part);
    return true;
  }

  void lay(int block, const Part& part) {
    leave(block, first_[block], last_[block] + 1);
    offsets[block] = sections_[first_[block]].floor;
    for (int s = first_[block]; s <= last_[block]; s++)
      sections_[s].floor = offsets[block] + sizes_[block];
    add(part, part.waiting - 1, part.ceiling);
  }

  bool waits(int block) const { return barred_[block] < NOWHERE; }

  void leave(int block, int begin, int end) {
    saved_.push_back({begin, end, sections_[begin].floor, block});
    count(block, -1);
    bar(block, NOWHERE, 0);
  }

  void count(int block, int change) {
    for (int s = first_[block]; s <= last_[block]; s++) {
      sections_[s].load += change * sizes_[block];
      if (s < last_[block]) sections_[s].crossing += change;
    }
  }

  void bar(int block, int64_t level, int64_t tried) {
    bars_.push_back({block, barred_[block], tried_[block]});
    barred_[block] = level;
    tried_[block] = tried;
  }

  void take_back(const Mark& mark) {
    for (; saved_.size() > mark.saved; saved_.pop_back()) {
      const Saved& was = saved_.back();
      for (int s = was.begin; s < was.end; s++) sections_[s].floor = was.floor;
      if (was.block >= 0) count(was.block, 1);
    }
    for (; bars_.size() > mark.bars; bars_.pop_back()) {
      barred_[bars_.back().block] = bars_.back().level;
      tried_[bars_.back().block] = bars_.back().tried;
    }
  }

  const int64_t* sizes_;
  const int64_t height_;
  const bool is_wary_;
  std::shared_ptr<const Blocks> order_;
  Blocks first_, last_;
  std::vector<int64_t> barred_, tried_;

 public:
  std::vector<int64_t> offsets;
  int64_t steps = 0;

 private:
  std::vector<Section> sections_;
  std::vector<Part> agenda_;
  std::vector<Choice> choices_;
  std::vector<Saved> saved_;
  std::vector<Bar> bars_;
  // Of the part that is looked at.
  std::vector<Valley> valleys_;
  std::vector<int> valley_of_, counts_;
  Blocks resting_;
};

}  // namespace

// Looks for offsets within a height. Returns 1 if there are some, 0 if the steps are used up, -1 if
// there are none.
XIRANG_EXPORTED int xirang_search(int64_t count, const int64_t* starts, const int64_t* ends,
                                  const int64_t* sizes, const int64_t* ranks, int64_t height,
                                  int64_t steps_max, bool is_wary, int64_t* offsets,
                                  int64_t* steps) {
  Search search(static_cast<int>(count), starts, ends, sizes, ranks, height, is_wary);
  const int found = search.run(steps_max);
  if (found == 1) std::copy(search.offsets.begin(), search.offsets.end(), offsets);
  *steps = search.steps;
  return found;
}
