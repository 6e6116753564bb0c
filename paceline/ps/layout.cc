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

std::vector<Layout> Layout::split(int count) const {
  std::vector<Layout> parts(1);
  for (const TensorSpec& tensor : tensors_) {
    // A part is full once the floats so far reach its share of the whole.
    const auto made = static_cast<std::int64_t>(parts.size());
    const bool full = tensor.offset + tensor.size / 2 >= size_ * made / count;
    if (full && made < count && parts.back().size() > 0) parts.emplace_back();
    parts.back().add(tensor.name, tensor.kind, tensor.shape);
  }
  return parts;
}

}  // namespace paceline::ps
