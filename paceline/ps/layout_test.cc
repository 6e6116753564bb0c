// Where tensors lie, and how a layout is cut into shards.
#include "paceline/ps/layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::ps {
namespace {

// Tensors of these sizes, named by their number.
Layout layout_of(const std::vector<std::int64_t>& sizes) {
  Layout layout;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    layout.add("t" + std::to_string(i), TensorKind::kParameter, {sizes[i]});
  return layout;
}

// What always holds of a layout.
void check(const Layout& layout) {
  std::int64_t end = 0;
  for (const TensorSpec& tensor : layout.tensors()) {
    EXPECT_EQ(tensor.offset % Layout::kAlignment, 0) << tensor.name;
    EXPECT_GE(tensor.offset, end) << tensor.name << " overlaps the one before";
    EXPECT_LT(tensor.offset - end, Layout::kAlignment) << "more padding than needed before " << tensor.name;
    end = tensor.offset + tensor.size;
  }
  EXPECT_GE(layout.size(), end);
  EXPECT_EQ(layout.size() % Layout::kAlignment, 0);
}

// What always holds of its parts: every tensor once, in order; no part empty; none much larger than its
// share.
void check_split(const Layout& layout, int count) {
  const std::vector<Layout> parts = layout.split(count);
  const auto tensors = static_cast<int>(layout.tensors().size());
  EXPECT_EQ(static_cast<int>(parts.size()), std::max(1, std::min(count, tensors)));
  std::vector<TensorSpec> all;
  std::int64_t largest_tensor = 0;
  for (const Layout& part : parts) {
    check(part);
    EXPECT_EQ(part.tensors().empty(), tensors == 0);
    all.insert(all.end(), part.tensors().begin(), part.tensors().end());
  }
  ASSERT_EQ(all.size(), layout.tensors().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    TensorSpec moved = all[i];
    moved.offset = layout.tensors()[i].offset;
    EXPECT_EQ(moved, layout.tensors()[i]);
    largest_tensor = std::max(largest_tensor, all[i].size + Layout::kAlignment);
  }
  for (const Layout& part : parts) EXPECT_LE(part.size(), layout.size() / count + largest_tensor);
}

TEST(Layout, PutsTensorsOneAfterAnotherAtCacheLines) {
  Layout layout;
  layout.add("conv", TensorKind::kParameter, {4, 3, 3});
  layout.add("mean", TensorKind::kStatistic, {4});
  layout.add("scalar", TensorKind::kParameter, {});
  layout.add("line", TensorKind::kParameter, {16});
  check(layout);
  ASSERT_EQ(layout.tensors().size(), 4u);
  EXPECT_EQ(layout.tensors()[0], (TensorSpec{"conv", TensorKind::kParameter, {4, 3, 3}, 0, 36}));
  EXPECT_EQ(layout.tensors()[1], (TensorSpec{"mean", TensorKind::kStatistic, {4}, 48, 4}));
  EXPECT_EQ(layout.tensors()[2], (TensorSpec{"scalar", TensorKind::kParameter, {}, 64, 1}));
  EXPECT_EQ(layout.tensors()[3], (TensorSpec{"line", TensorKind::kParameter, {16}, 80, 16}));
  EXPECT_EQ(layout.size(), 96);
}

TEST(Layout, OnePartIsTheWhole) {
  const Layout layout = layout_of({5, 100, 16});
  EXPECT_EQ(layout.split(1), std::vector<Layout>{layout});
}

TEST(Layout, EqualTensorsMakeEqualParts) {
  for (const Layout& part : layout_of({64, 64, 64, 64, 64, 64}).split(3)) EXPECT_EQ(part.size(), 128);
}

TEST(Layout, MorePartsThanTensorsIsOnePartForEach) {
  const std::vector<Layout> parts = layout_of({10, 2000, 30}).split(8);
  ASSERT_EQ(parts.size(), 3u);
  check_split(layout_of({10, 2000, 30}), 8);
}

TEST(Layout, OneHugeTensorHasAPartToItselfWhereverItLies) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{100'000, 16, 16, 16},
                                                 {16, 100'000, 16, 16},
                                                 {16, 16, 100'000, 16},
                                                 {16, 16, 16, 100'000}}) {
    for (int count : {1, 2, 3, 4}) check_split(layout_of(sizes), count);
  }
}

TEST(Layout, ALayoutWithoutTensorsIsOneEmptyPart) { check_split(Layout(), 4); }

TEST(Layout, RandomLayoutsSplitWell) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    std::vector<std::int64_t> sizes(1 + rng.below(30));
    const std::uint64_t largest = std::uint64_t{1} << rng.below(18);
    for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(rng.below(largest));
    const Layout layout = layout_of(sizes);
    check(layout);
    check_split(layout, 1 + static_cast<int>(rng.below(12)));
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::ps
