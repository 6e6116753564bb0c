// A curve of bounded size, however long the run: when it is full, neighbours merge, and each point from then
// on stands for twice as many observations. `Merge` chooses the point that stands for two neighbours (older,
// newer). Part of the folds of this folder. Invariant: fewer than `capacity` points, in the order in which
// they were added.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline::report {

struct TakeNewest {
  template <class Point>
  Point operator()(const Point&, const Point& newer) const {
    return newer;
  }
};

template <class Point, class Merge = TakeNewest>
class Thinned {
 public:
  // Requires: an even capacity, so that each point has a neighbour to merge with.
  explicit Thinned(std::size_t capacity) : capacity_(capacity) {}

  void add(const Point& point) {
    pending_ = in_pending_ == 0 ? point : Merge()(pending_, point);
    if (++in_pending_ < stride_) return;
    points_.push_back(pending_);
    in_pending_ = 0;
    if (points_.size() >= capacity_) halve();
  }

  // The points, the newest observations included even if they do not fill a whole point yet.
  std::vector<Point> points() const {
    std::vector<Point> all = points_;
    if (in_pending_ > 0) all.push_back(pending_);
    return all;
  }

 private:
  void halve() {
    for (std::size_t i = 0; i + 1 < points_.size(); i += 2) {
      points_[i / 2] = Merge()(points_[i], points_[i + 1]);
    }
    points_.resize(points_.size() / 2);
    stride_ *= 2;
  }

  std::size_t capacity_;
  std::size_t stride_ = 1;
  std::size_t in_pending_ = 0;
  Point pending_{};
  std::vector<Point> points_;
};

}  // namespace paceline::report
