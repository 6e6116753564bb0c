// Tests of the places of tensors, and of layouts that are cut into shards.
#include "paceline/base/layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"

namespace paceline {
namespace {

// Tensors of these sizes, named by their number.
Layout layout_of(const std::vector<std::int64_t>& sizes) {
  Layout layout;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    layout.add("t" + std::to_string(i), TensorKind::kParameter, {sizes[i]});
  return layout;
}

// Checks what always holds of a layout.
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

// Checks what always holds of its parts: every tensor once, in order; no part empty; none much larger than
// its share.
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

TEST(Layout, IsSplitByShares) {
  const Layout layout = layout_of({64, 64, 64, 64, 64, 64});
  const auto sizes = [&](std::vector<double> shares) {
    std::vector<std::int64_t> parts;
    for (const Layout& part : layout.split(shares)) parts.push_back(part.size());
    return parts;
  };
  EXPECT_EQ(layout.split(std::vector{1.0}), std::vector{layout});
  EXPECT_EQ(sizes({0.5, 0.5}), (std::vector<std::int64_t>{192, 192}));
  EXPECT_EQ(sizes({2.0 / 3, 1.0 / 3}), (std::vector<std::int64_t>{256, 128}));
  EXPECT_EQ(sizes({1.0 / 6, 4.0 / 6, 1.0 / 6}), (std::vector<std::int64_t>{64, 256, 64}));
  EXPECT_EQ(sizes({0.999, 0.001}), (std::vector<std::int64_t>{320, 64})) << "each part has a tensor";
  EXPECT_EQ(sizes({0.001, 0.001, 0.998}), (std::vector<std::int64_t>{64, 64, 256}));
  for (const int count : {1, 2, 3, 4}) {
    const std::vector<double> equal(static_cast<std::size_t>(count), 1.0 / count);
    EXPECT_EQ(layout.split(equal), layout.split(count));
  }
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

TEST(Layout, ALayoutWithoutTensorsIsOneEmptyPart) {
  check_split(Layout(), 4);
  EXPECT_EQ(Layout().split_evenly(4), std::vector<Layout>{Layout()});
}

// A float's owner: its tensor, and its place in it. The test works out every float of a layout one by one,
// padding aside.
struct Owner {
  std::string tensor;
  std::int64_t place = 0;
  friend bool operator==(const Owner&, const Owner&) = default;
};

std::vector<Owner> owners(const std::vector<Layout>& parts) {
  std::vector<Owner> all;
  for (const Layout& part : parts) {
    std::vector<Owner> of_part(static_cast<std::size_t>(part.size()));
    for (const TensorSpec& tensor : part.tensors()) {
      const std::size_t at = tensor.name.find('@');
      const std::int64_t first = at == std::string::npos ? 0 : std::stoll(tensor.name.substr(at + 1));
      for (std::int64_t i = 0; i < tensor.size; ++i)
        of_part[static_cast<std::size_t>(tensor.offset + i)] = {tensor.name.substr(0, at), first + i};
    }
    all.insert(all.end(), of_part.begin(), of_part.end());
  }
  return all;
}

void check_even_split(const Layout& layout, int count) {
  const std::vector<Layout> parts = layout.split_evenly(count);
  EXPECT_EQ(static_cast<std::int64_t>(parts.size()),
            std::max<std::int64_t>(1, std::min<std::int64_t>(count, layout.size() / Layout::kAlignment)));
  const std::int64_t share = layout.size() / static_cast<std::int64_t>(parts.size());
  for (const Layout& part : parts) {
    check(part);
    EXPECT_LT(std::abs(part.size() - share), Layout::kAlignment);
  }
  EXPECT_EQ(owners(parts), owners({layout}));
}

TEST(Layout, EvenPartsHaveEveryFloatOnceAndInItsPlace) {
  const std::vector<std::int64_t> sizes = {1, 15, 16, 17, 40, 100};
  for (const std::int64_t a : sizes) {
    for (const std::int64_t b : sizes) {
      for (const std::int64_t c : sizes) {
        for (int count = 1; count <= 9; ++count) check_even_split(layout_of({a, b, c}), count);
        ASSERT_FALSE(::testing::Test::HasFailure()) << a << " " << b << " " << c;
      }
    }
  }
}

TEST(Layout, APartHasWholeTensorsAsTheyAreAndPiecesFlat) {
  Layout layout;
  layout.add("conv", TensorKind::kParameter, {4, 3, 3});
  layout.add("mean", TensorKind::kStatistic, {4});
  layout.add("fc", TensorKind::kParameter, {5, 9});
  Layout part;
  part.add("conv@32", TensorKind::kParameter, {4});
  part.add("mean", TensorKind::kStatistic, {4});
  part.add("fc@0", TensorKind::kParameter, {16});
  EXPECT_EQ(layout.part(32, 80), part);
  EXPECT_EQ(layout.part(0, layout.size()), layout);
}

TEST(Layout, AConstantTakesTheBytesOfItsType) {
  Layout layout;
  layout.add("steps", TensorKind::kConstant, {}, Dtype::kInt64);
  layout.add("ids", TensorKind::kConstant, {3, 3}, Dtype::kInt64);
  layout.add("mask", TensorKind::kConstant, {5}, Dtype::kBool);
  layout.add("scale", TensorKind::kConstant, {3}, Dtype::kBfloat16);
  layout.add("half", TensorKind::kParameter, {3}, Dtype::kFloat16);
  check(layout);
  std::vector<std::int64_t> sizes;
  for (const TensorSpec& tensor : layout.tensors()) sizes.push_back(tensor.size);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 18, 2, 2, 3}));
  EXPECT_EQ(layout.tensors()[1].shape, (std::vector<std::int64_t>{3, 3}));
  Layout other = layout;
  EXPECT_EQ(other, layout);
  other.add("more", TensorKind::kParameter, {1});
  layout.add("more", TensorKind::kParameter, {1}, Dtype::kFloat64);
  EXPECT_NE(other, layout) << "in their types alone";
}

TEST(Layout, APieceOfAConstantHasItsElements) {
  Layout layout;
  layout.add("ids", TensorKind::kConstant, {4, 5}, Dtype::kInt64);  // 40 floats of 48
  layout.add("mask", TensorKind::kConstant, {131}, Dtype::kUint8);  // 33 floats of 48
  Layout first, second;
  first.add("ids@0", TensorKind::kConstant, {16}, Dtype::kInt64);
  second.add("ids@32", TensorKind::kConstant, {4}, Dtype::kInt64);
  second.add("mask@0", TensorKind::kConstant, {128}, Dtype::kUint8);
  Layout third;
  third.add("mask@32", TensorKind::kConstant, {3}, Dtype::kUint8);
  EXPECT_EQ(layout.part(0, 32), first);
  EXPECT_EQ(layout.part(32, 80), second);
  EXPECT_EQ(layout.part(80, 96), third);
}

TEST(Layout, WhatMovesIsAllButConstants) {
  Layout layout;
  layout.add("a", TensorKind::kConstant, {3});
  layout.add("b", TensorKind::kParameter, {20});
  layout.add("mean", TensorKind::kStatistic, {3});
  layout.add("c", TensorKind::kConstant, {17});
  layout.add("d", TensorKind::kConstant, {1});
  layout.add("e", TensorKind::kParameter, {1});
  EXPECT_EQ(layout.moving(), (std::vector<Layout::Range>{{16, 64}, {112, 128}}));
  EXPECT_EQ(layout.runs().size(), 5u);
  EXPECT_EQ(layout.runs()[3].kind, TensorKind::kConstant);
  EXPECT_TRUE(Layout().moving().empty());
  EXPECT_EQ(layout_of({5, 100}).moving(), (std::vector<Layout::Range>{{0, 128}}));
}

TEST(Layout, OnlyConstantsAreCopied) {
  Layout layout;
  layout.add("a", TensorKind::kParameter, {16});
  layout.add("b", TensorKind::kConstant, {16});
  layout.add("c", TensorKind::kStatistic, {16});
  const std::vector<float> from(48, 1.0f);
  std::vector<float> to(48, 0.0f);
  copy_constants(layout.runs(), from, to);
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], i / 16 == 1 ? 1.0f : 0.0f) << i;
}

TEST(Dtype, HasANameForEachAndBack) {
  for (const Dtype type : {Dtype::kFloat32, Dtype::kFloat64, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kInt64,
                           Dtype::kInt32, Dtype::kInt16, Dtype::kInt8, Dtype::kUint8, Dtype::kBool}) {
    EXPECT_EQ(dtype_named(name_of(type)), type);
    EXPECT_EQ(dtype_of_safetensors(safetensors_name(type)), type);
  }
  EXPECT_EQ(name_of(Dtype::kBfloat16), "bfloat16");
  EXPECT_EQ(safetensors_name(Dtype::kBool), "BOOL");
  EXPECT_EQ(bytes_of(Dtype::kInt16), 2);
  EXPECT_FALSE(dtype_named("complex64"));
  EXPECT_FALSE(dtype_of_safetensors("float32"));
}

TEST(Layout, RandomLayoutsSplitWell) {
  for (std::uint64_t seed = 0; seed < effort::part_of(3000); ++seed) {
    Rng rng(seed);
    std::vector<std::int64_t> sizes(1 + rng.below(30));
    const std::uint64_t largest = std::uint64_t{1} << rng.below(18);
    for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(rng.below(largest));
    const Layout layout = layout_of(sizes);
    check(layout);
    const int count = 1 + static_cast<int>(rng.below(12));
    check_split(layout, count);
    if (layout.size() < 100'000) check_even_split(layout, count);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline
