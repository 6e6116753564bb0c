// A list of bounded size, however long the run: its first entries, its latest ones, and the number of
// forgotten entries between them. Part of the folds of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace paceline::report {

template <class T>
class FirstAndLatest {
 public:
  // Requires: latest > 0.
  FirstAndLatest(std::size_t first, std::size_t latest) : first_size_(first), latest_size_(latest) {}

  void add(T entry) {
    if (first_.size() < first_size_) {
      first_.push_back(std::move(entry));
      return;
    }
    latest_.push_back(std::move(entry));
    if (latest_.size() <= latest_size_) return;
    latest_.pop_front();
    ++left_out_;
  }

  std::vector<T> kept() const {
    std::vector<T> all = first_;
    all.insert(all.end(), latest_.begin(), latest_.end());
    return all;
  }

  std::int64_t left_out() const { return left_out_; }

 private:
  std::size_t first_size_;
  std::size_t latest_size_;
  std::vector<T> first_;
  std::deque<T> latest_;
  std::int64_t left_out_ = 0;
};

}  // namespace paceline::report
