#include "paceline/base/layout.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline {

namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);

// The elements of `tensor` that lie in its floats [first, last). A cut is at a cache line, so no element lies
// on both sides of it.
std::int64_t elements_in(const TensorSpec& tensor, std::int64_t first, std::int64_t last) {
  if (tensor.kind != TensorKind::kConstant) return last - first;
  const std::int64_t bytes = bytes_of(tensor.dtype);
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= extent;
  return std::min(elements, last * kFloatBytes / bytes) - first * kFloatBytes / bytes;
}

}  // namespace

void Layout::add(std::string name, TensorKind kind, std::vector<std::int64_t> shape, Dtype dtype) {
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  if (kind == TensorKind::kConstant) size = (size * bytes_of(dtype) + kFloatBytes - 1) / kFloatBytes;
  tensors_.push_back({std::move(name), kind, std::move(shape), size_, size, dtype});
  size_ += (size + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t Layout::leading_bfloat16() const {
  const auto other = std::find_if(tensors_.begin(), tensors_.end(), [](const TensorSpec& tensor) {
    return tensor.kind != TensorKind::kParameter || tensor.dtype != Dtype::kBfloat16;
  });
  return other == tensors_.end() ? size_ : other->offset;
}

bool Layout::can_be_narrow(std::int64_t end) const {
  if (end < 0 || end > leading_bfloat16()) return false;
  return end == size_ || std::any_of(tensors_.begin(), tensors_.end(),
                                     [&](const TensorSpec& tensor) { return tensor.offset == end; });
}

void Layout::set_narrow(std::int64_t end) {
  PACELINE_CHECK(can_be_narrow(end), "{} narrow floats of {}", end, size_);
  narrow_ = end;
}

void Layout::narrow_as(const Layout& whole, std::int64_t before) {
  narrow_ = std::clamp<std::int64_t>(whole.narrow_ - before, 0, size_);
}

std::vector<Layout::Run> Layout::runs() const {
  std::vector<Run> runs;
  for (const TensorSpec& tensor : tensors_) {
    if (!runs.empty()) runs.back().end = tensor.offset;
    if (runs.empty() || runs.back().kind != tensor.kind) runs.push_back({tensor.kind, tensor.offset, 0});
  }
  if (!runs.empty()) runs.back().end = size_;
  return runs;
}

std::vector<Layout::Range> Layout::moving() const {
  std::vector<Range> ranges;
  for (const Run& run : runs()) {
    if (run.kind == TensorKind::kConstant) continue;
    if (ranges.empty() || ranges.back().end != run.begin) ranges.push_back({run.begin, run.begin});
    ranges.back().end = run.end;
  }
  return ranges;
}

std::vector<Layout> Layout::split(int count) const {
  std::vector<std::int64_t> ends;
  for (int made = 1; made < count; ++made) ends.push_back(size_ * made / count);
  return split_near(ends);
}

std::vector<Layout> Layout::split(std::span<const double> shares) const {
  std::vector<std::int64_t> ends;
  double sum = 0;
  for (const double share : shares.first(shares.size() - 1))
    ends.push_back(static_cast<std::int64_t>(static_cast<double>(size_) * (sum += share)));
  return split_near(ends);
}

std::vector<Layout> Layout::split_near(std::span<const std::int64_t> ends) const {
  const auto count = std::ssize(ends) + 1;
  std::vector<Layout> parts(1);
  auto left = static_cast<std::int64_t>(tensors_.size());
  for (const TensorSpec& tensor : tensors_) {
    // A part is full once the floats so far reach its share of the whole, or when the tensors left, this one
    // included, are just enough for the parts to come.
    const auto made = std::ssize(parts);
    if (made < count && parts.back().size() > 0) {
      const std::int64_t end = ends[static_cast<std::size_t>(made - 1)];
      if (tensor.offset + tensor.size / 2 >= end || left <= count - made) parts.emplace_back();
    }
    parts.back().add(tensor.name, tensor.kind, tensor.shape, tensor.dtype);
    --left;
  }
  std::int64_t before = 0;
  for (Layout& part : parts) {
    part.narrow_as(*this, before);
    before += part.size();
  }
  return parts;
}

Layout Layout::part(std::int64_t begin, std::int64_t end) const {
  PACELINE_CHECK(
      0 <= begin && begin <= end && end <= size_ && begin % kAlignment == 0 && end % kAlignment == 0,
      "floats {} to {} of a layout of {}", begin, end, size_);
  Layout part;
  for (const TensorSpec& tensor : tensors_) {
    const std::int64_t first = std::max(begin, tensor.offset) - tensor.offset;
    const std::int64_t last = std::min(end, tensor.offset + tensor.size) - tensor.offset;
    if (first >= last) continue;
    if (last - first == tensor.size) {
      part.add(tensor.name, tensor.kind, tensor.shape, tensor.dtype);
    } else {
      part.add(fmt::format("{}@{}", tensor.name, first), tensor.kind, {elements_in(tensor, first, last)},
               tensor.dtype);
    }
  }
  part.narrow_as(*this, begin);
  return part;
}

std::vector<Layout> Layout::split_evenly(int count) const {
  const std::int64_t lines = size_ / kAlignment;
  const std::int64_t made = std::clamp<std::int64_t>(count, 1, std::max<std::int64_t>(lines, 1));
  std::vector<Layout> parts;
  for (std::int64_t i = 0; i < made; ++i)
    parts.push_back(part(lines * i / made * kAlignment, lines * (i + 1) / made * kAlignment));
  return parts;
}

PieceName piece_named(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos) return {name};
  std::int64_t begin = 0;
  const char* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + at + 1, end, begin);
  if (error != std::errc() || stopped != end || begin < 0) return {name};
  return {name.substr(0, at), begin, false};
}

void copy_constants(std::span<const Layout::Run> runs, std::span<const float> from, std::span<float> to) {
  for (const Layout::Run& run : runs) {
    if (run.kind == TensorKind::kConstant && run.end > run.begin)
      std::memcpy(to.data() + run.begin, from.data() + run.begin,
                  static_cast<std::size_t>(run.end - run.begin) * sizeof(float));
  }
}

}  // namespace paceline
