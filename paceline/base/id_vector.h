// A vector that only numbers of one kind index: what there is of each of them, from 0.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace paceline {

template <class Id, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t count, const T& value = {}) : all_(count, value) {}
  explicit IdVector(std::vector<T> all) : all_(std::move(all)) {}
  IdVector(std::initializer_list<T> all) : all_(all) {}

  // Requires: has(id).
  decltype(auto) operator[](Id id) { return all_[static_cast<std::size_t>(id.value())]; }
  decltype(auto) operator[](Id id) const { return all_[static_cast<std::size_t>(id.value())]; }
  bool has(Id id) const { return id.value() >= 0 && static_cast<std::size_t>(id.value()) < all_.size(); }

  std::size_t size() const { return all_.size(); }
  void push_back(T one) { all_.push_back(std::move(one)); }
  auto begin() { return all_.begin(); }
  auto begin() const { return all_.begin(); }
  auto end() { return all_.end(); }
  auto end() const { return all_.end(); }
  friend bool operator==(const IdVector&, const IdVector&) = default;

  // All numbers that there are, in their order.
  std::vector<Id> ids() const {
    std::vector<Id> ids;
    for (std::size_t i = 0; i < all_.size(); ++i) ids.emplace_back(static_cast<typename Id::rep>(i));
    return ids;
  }

 private:
  std::vector<T> all_;
};

}  // namespace paceline
