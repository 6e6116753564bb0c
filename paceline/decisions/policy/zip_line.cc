#include "paceline/decisions/policy/zip_line.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace paceline::policy {

namespace {

// The knowledge of the best selection while picks are still to be found.
template <class List>
struct Best {
  using Value = typename Selection<List>::Value;
  typename Selection<List>::Range range;
  Value begin;
  Value end;

  Best(Value first, Value last) : range(last - first), begin(first), end(last) {}
  // The order of the header: least range, earliest end. The begin matters only if rounding makes different
  // ranges equal.
  friend bool operator<(const Best& a, const Best& b) {
    return std::tie(a.range, a.end, a.begin) < std::tie(b.range, b.end, b.begin);
  }
};

// The place of the first element that is not before `value`; the list's size when there is none.
template <class List, class Value>
std::size_t first_not_before(const List& list, Value value) {
  std::size_t low = 0;
  std::size_t high = list.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (list[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class List>
Selection<List> with_picks(const std::vector<List>& lists, const Best<List>& best) {
  Selection<List> selection{best.range, best.begin, best.end, {}};
  selection.picks.reserve(lists.size());
  for (const List& list : lists) selection.picks.push_back(first_not_before(list, best.begin));
  return selection;
}

// One cursor for each list, in a heap with the smallest element on top.
template <class List>
class Cursors {
 public:
  using Value = typename Selection<List>::Value;

  explicit Cursors(const std::vector<List>& lists) : lists_(lists) {
    heap_.reserve(lists.size());
    for (const List& list : lists) heap_.push_back({list[0], heap_.size(), 0});
    for (std::size_t i = heap_.size() / 2; i-- > 0;) sift_down(i);
  }

  Value smallest() const { return heap_[0].value; }

  // Moves the smallest cursor on by one; false at the end of its list.
  bool advance(Value* reached) {
    Cursor& top = heap_[0];
    const List& list = lists_[top.list];
    if (++top.place == list.size()) return false;
    *reached = top.value = list[top.place];
    sift_down(0);
    return true;
  }

 private:
  struct Cursor {
    Value value;
    std::size_t list;
    std::size_t place;
  };

  void sift_down(std::size_t hole) {
    const Cursor moved = heap_[hole];
    for (std::size_t child = 2 * hole + 1; child < heap_.size(); child = 2 * hole + 1) {
      // An addition and not a branch: which child is the smaller cannot be predicted.
      if (child + 1 < heap_.size()) child += heap_[child + 1].value < heap_[child].value ? 1 : 0;
      if (!(heap_[child].value < moved.value)) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = moved;
  }

  const std::vector<List>& lists_;
  std::vector<Cursor> heap_;
};

// The place of the element of `list` that is closest to `value`; the earliest on ties. Looks at each element.
template <class List, class Value>
std::size_t closest(const List& list, Value value) {
  const auto distance = [&](std::size_t i) { return list[i] < value ? value - list[i] : list[i] - value; };
  std::size_t best = 0;
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (distance(i) < distance(best)) best = i;
  }
  return best;
}

// The span of the elements at these places.
template <class List>
Best<List> span_of(const std::vector<List>& lists, const std::vector<std::size_t>& places) {
  auto begin = lists[0][places[0]];
  auto end = begin;
  for (std::size_t k = 1; k < lists.size(); ++k) {
    begin = std::min(begin, lists[k][places[k]]);
    end = std::max(end, lists[k][places[k]]);
  }
  return {begin, end};
}

// The best of the selections shown to it; of equal ones the first.
template <class List>
class BestPlaces {
 public:
  void show(const std::vector<List>& lists, const std::vector<std::size_t>& places) {
    const Best<List> found = span_of(lists, places);
    if (best_ && !(found < *best_)) return;
    best_ = found;
    places_ = places;
  }
  // Requires: something was shown.
  Selection<List> take() { return {best_->range, best_->begin, best_->end, std::move(places_)}; }

 private:
  std::optional<Best<List>> best_;
  std::vector<std::size_t> places_;
};

// Every element of one list with the closest ones of the others.
template <class List>
void show_closest(const std::vector<List>& lists, std::size_t base, BestPlaces<List>& best) {
  std::vector<std::size_t> places(lists.size());
  for (std::size_t i = 0; i < lists[base].size(); ++i) {
    for (std::size_t k = 0; k < lists.size(); ++k)
      places[k] = k == base ? i : closest(lists[k], lists[base][i]);
    best.show(lists, places);
  }
}

// An element on the paper's timeline: its list is the point's colour there.
template <class List>
struct Point {
  typename Selection<List>::Value time;
  std::size_t list;
  friend bool operator<(const Point& a, const Point& b) {
    return std::tie(a.time, a.list) < std::tie(b.time, b.list);
  }
};

template <class List>
std::vector<Point<List>> timeline_of(const std::vector<List>& lists) {
  std::vector<Point<List>> points;
  for (std::size_t k = 0; k < lists.size(); ++k) {
    for (std::size_t i = 0; i < lists[k].size(); ++i) points.push_back({lists[k][i], k});
  }
  std::sort(points.begin(), points.end());
  return points;
}

// How an element of the same list is found in the scanning set.
enum class SameList { kFromTheLeft, kLeftmostFirst, kByItsTime };

// Z of the header: the newest element of each list, in order of time.
template <class List>
class ScanningSet {
 public:
  ScanningSet(std::size_t lists, SameList how) : how_(how), newest_(lists) {}

  void add(const Point<List>& point) {
    auto& newest = newest_[point.list];
    if (newest && how_ != SameList::kFromTheLeft && set_[first_].list == point.list) {
      ++first_;
    } else if (newest) {
      set_.erase(find({*newest, point.list}));
    }
    newest = point.time;
    set_.push_back(point);
  }
  // Whether every list has an element in it.
  bool whole() const { return set_.size() - first_ == newest_.size(); }
  Best<List> best() const { return {set_[first_].time, set_.back().time}; }

 private:
  auto find(const Point<List>& point) {
    const auto begin = set_.begin() + static_cast<std::ptrdiff_t>(first_);
    if (how_ == SameList::kByItsTime) return std::lower_bound(begin, set_.end(), point);
    return std::find_if(begin, set_.end(), [&](const auto& other) { return other.list == point.list; });
  }

  const SameList how_;
  std::vector<std::optional<typename Selection<List>::Value>> newest_;  // one for each list
  std::vector<Point<List>> set_;                                        // elements from first_ on
  std::size_t first_ = 0;
};

template <class List>
Selection<List> scanned(const std::vector<List>& lists, SameList how) {
  ScanningSet<List> set(lists.size(), how);
  std::optional<Best<List>> best;
  for (const Point<List>& point : timeline_of(lists)) {
    set.add(point);
    if (set.whole() && (!best || set.best() < *best)) best = set.best();
  }
  return with_picks(lists, *best);
}

// The earliest end of a selection that begins at `begin`; nothing when some list is over by then.
template <class List, class Value>
std::optional<Value> end_from(const std::vector<List>& lists, Value begin) {
  Value end = begin;
  for (const List& list : lists) {
    std::size_t i = 0;
    while (i < list.size() && list[i] < begin) ++i;
    if (i == list.size()) return std::nullopt;
    end = std::max(end, list[i]);
  }
  return end;
}

// The next combination of places, the last list's running fastest; false after the last one.
template <class List>
bool next_places(const std::vector<List>& lists, std::vector<std::size_t>& places) {
  for (std::size_t k = lists.size(); k-- > 0;) {
    if (++places[k] < lists[k].size()) return true;
    places[k] = 0;
  }
  return false;
}

}  // namespace

template <class List>
Selection<List> zip_line(const std::vector<List>& lists) {
  Cursors<List> cursors(lists);
  auto largest = lists[0][0];
  for (const List& list : lists) largest = std::max(largest, list[0]);
  Best<List> best(cursors.smallest(), largest);
  // No selection begins at the smallest cursor and ends before the largest: whatever was passed lies before.
  for (auto reached = largest; cursors.advance(&reached);) {
    largest = std::max(largest, reached);
    best = std::min(best, Best<List>(cursors.smallest(), largest));
  }
  return with_picks(lists, best);
}

template <class List>
Selection<List> zip_line_scan(const std::vector<List>& lists) {
  return scanned(lists, SameList::kFromTheLeft);
}

template <class List>
Selection<List> zip_line_opt(const std::vector<List>& lists) {
  return scanned(lists, SameList::kLeftmostFirst);
}

template <class List>
Selection<List> zip_line_opt_bs(const std::vector<List>& lists) {
  return scanned(lists, SameList::kByItsTime);
}

template <class List>
Selection<List> full_grid_scan_exact(const std::vector<List>& lists) {
  std::optional<Best<List>> best;
  for (const List& list : lists) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto end = end_from(lists, list[i]);
      if (!end) continue;
      const Best<List> found(list[i], *end);
      if (!best || found < *best) best = found;
    }
  }
  // Every list has an element from the earliest of all on, so there is a best selection.
  return with_picks(lists, *best);
}

template <class List>
Selection<List> grid_scan(const std::vector<List>& lists) {
  std::size_t base = 0;
  for (std::size_t k = 1; k < lists.size(); ++k) {
    if (lists[k][0] < lists[base][0]) base = k;
  }
  BestPlaces<List> best;
  show_closest(lists, base, best);
  return best.take();
}

template <class List>
Selection<List> full_grid_scan(const std::vector<List>& lists) {
  BestPlaces<List> best;
  for (std::size_t base = 0; base < lists.size(); ++base) show_closest(lists, base, best);
  return best.take();
}

template <class List>
Selection<List> naive(const std::vector<List>& lists) {
  BestPlaces<List> best;
  std::vector<std::size_t> places(lists.size(), 0);
  do best.show(lists, places);
  while (next_places(lists, places));
  return best.take();
}

#define PACELINE_INSTANTIATE(List)                                               \
  template Selection<List> zip_line<List>(const std::vector<List>&);             \
  template Selection<List> zip_line_scan<List>(const std::vector<List>&);        \
  template Selection<List> zip_line_opt<List>(const std::vector<List>&);         \
  template Selection<List> zip_line_opt_bs<List>(const std::vector<List>&);      \
  template Selection<List> full_grid_scan_exact<List>(const std::vector<List>&); \
  template Selection<List> full_grid_scan<List>(const std::vector<List>&);       \
  template Selection<List> grid_scan<List>(const std::vector<List>&);            \
  template Selection<List> naive<List>(const std::vector<List>&);
PACELINE_INSTANTIATE(EvenTimes)
PACELINE_INSTANTIATE(TimeList)
PACELINE_INSTANTIATE(NumberList)
#undef PACELINE_INSTANTIATE

}  // namespace paceline::policy
