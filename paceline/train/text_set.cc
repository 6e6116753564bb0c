#include "paceline/train/text_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <torch/torch.h>

#include "paceline/base/check.h"

namespace paceline::train {

TextSet::TextSet(std::shared_ptr<const Bytes> text, std::int64_t begin, std::int64_t end,
                 std::int64_t context)
    : text_(std::move(text)), begin_(begin), context_(context) {
  PACELINE_CHECK(0 <= begin && begin + context < end && end <= static_cast<std::int64_t>(text_->size()),
                 "bytes {} to {} of {}, context {}", begin, end, text_->size(), context);
  size_ = static_cast<std::int32_t>(
      std::min<std::int64_t>(windows(end - begin, context), std::numeric_limits<std::int32_t>::max()));
}

std::uint64_t TextSet::digest() const {
  const auto bytes = static_cast<std::size_t>(size_ * context_ + 1);
  return bytes_hash({text_->data() + begin_, bytes});
}

Batch TextSet::batch(std::span<const std::int32_t> indices, std::uint64_t) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  Batch batch{torch::empty({count, context_}, torch::kInt64), torch::empty({count, context_}, torch::kInt64)};
  auto* input = batch.inputs.data_ptr<std::int64_t>();
  auto* target = batch.targets.data_ptr<std::int64_t>();
  for (const std::int32_t index : indices) {
    PACELINE_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    const std::uint8_t* window = text_->data() + begin_ + index * context_;
    input = std::copy(window, window + context_, input);
    target = std::copy(window + 1, window + context_ + 1, target);
  }
  return batch;
}

}  // namespace paceline::train
