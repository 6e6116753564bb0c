#include "paceline/ps/layout.h"

#include <algorithm>
#include <utility>

namespace paceline::ps {

void Layout::add(std::string name, TensorKind kind, std::vector<std::int64_t> shape) {
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  tensors_.push_back({std::move(name), kind, std::move(shape), size_, size});
  size_ += (size + kAlignment - 1) / kAlignment * kAlignment;
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

std::vector<Layout> Layout::split(int count) const {
  std::vector<Layout> parts(1);
  auto left = static_cast<std::int64_t>(tensors_.size());
  for (const TensorSpec& tensor : tensors_) {
    // A part is full once the floats so far reach its share of the whole, or when the tensors left, this one
    // included, are just enough for the parts to come.
    const auto made = static_cast<std::int64_t>(parts.size());
    const bool full = tensor.offset + tensor.size / 2 >= size_ * made / count || left <= count - made;
    if (full && made < count && parts.back().size() > 0) parts.emplace_back();
    parts.back().add(tensor.name, tensor.kind, tensor.shape);
    --left;
  }
  return parts;
}

}  // namespace paceline::ps
