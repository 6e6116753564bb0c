// ZipLine (Zhao, Papagelis, An, Chen, Liu, Hu; Machine Learning 2021): chooses one element from each of n
// ascending lists, so that the range, largest − smallest, is least. ElasticBSP finds its barrier with it: the
// lists are predicted ready times, and the largest of the chosen ones is when all meet.
//
// Invariant: of several selections with the least range it chooses the one with the earliest end, and in each
// list the earliest element that fits. So the exact methods agree on every number and every pick.
//
// The methods, over the same input, n lists of R elements:
//
//  zip_line: O(Rn log n) time, O(n) space. A heap of n cursors and a running maximum [ours; it gives the
//    same answers as the paper's three].
//
//  zip_line_scan, zip_line_opt, zip_line_opt_bs: the paper's ZipLine, ZipLineOpt and ZipLineOptBS. All
//    elements are sorted by time, and added one by one to the scanning set Z, which keeps the newest element
//    of each list in order of time. The list's previous element has to be found in Z and taken out. ZipLine
//    looks from the left, O(Rn²). ZipLineOpt does not look if it is the leftmost. ZipLineOptBS otherwise
//    finds it by binary search for its time, which it keeps aside. Taking an element out of the middle moves
//    its successors in memory, which costs O(n) again, but hardly shows.
//
//  full_grid_scan: O(R²n²). Every element of every list in turn with the closest element of each other list
//    [paper]. Not always optimal: the closest elements may lie on both sides.
//
//  full_grid_scan_exact: O(R²n²). Every element of every list in turn is the smallest; each other list gives
//    its first element not before it [ours].
//
//  grid_scan: O(R²n). Every element of the list that begins earliest (of equal ones the first), with the
//    closest element of each other list [paper]. Not always optimal.
//
//  naive: O(Rⁿ). Every selection [paper].
//
// zip_line, its three relatives, full_grid_scan_exact and naive always find a least range.
//
// All are pure, and made for three kinds of list: EvenTimes, vectors of times, vectors of doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::policy {

// An ascending list that needs no storage: first, first + step, first + 2 step, …
struct EvenTimes {
  Time first;
  Duration step;
  std::size_t count;

  Time operator[](std::size_t i) const { return first + static_cast<std::int64_t>(i) * step; }
  std::size_t size() const { return count; }
};

using TimeList = std::vector<Time>;
using NumberList = std::vector<double>;

template <class List>
struct Selection {
  using Value = std::remove_cvref_t<decltype(std::declval<const List&>()[0])>;
  using Range = decltype(std::declval<Value>() - std::declval<Value>());

  Range range;
  Value begin;                     // the smallest chosen element
  Value end;                       // the largest
  std::vector<std::size_t> picks;  // for each list the place of its element, from 0
  friend bool operator==(const Selection&, const Selection&) = default;
};

// Requires of each: at least one list, none empty, each in non-descending order.
template <class List>
Selection<List> zip_line(const std::vector<List>& lists);
template <class List>
Selection<List> zip_line_scan(const std::vector<List>& lists);
template <class List>
Selection<List> zip_line_opt(const std::vector<List>& lists);
template <class List>
Selection<List> zip_line_opt_bs(const std::vector<List>& lists);
template <class List>
Selection<List> full_grid_scan_exact(const std::vector<List>& lists);
template <class List>
Selection<List> full_grid_scan(const std::vector<List>& lists);
template <class List>
Selection<List> grid_scan(const std::vector<List>& lists);
template <class List>
Selection<List> naive(const std::vector<List>& lists);

}  // namespace paceline::policy
