#include "paceline/computing/train/text_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <torch/types.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/text.h"

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

namespace {

constexpr char kHeadersRoot[] = "/usr/include/c++";

// The last tenth is the test set.
absl::StatusOr<DataSets> text_sets(Bytes bytes, const std::string& source, std::int64_t context) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t cut = size - size / 10;
  if (context < 1 || size / 10 <= context) {
    return absl::InvalidArgumentError(fmt::format(
        "data.source = \"{}\": {} bytes, with a tenth of them for tests, are too few for samples of "
        "model.context = {} bytes; name more text, raise data.max_bytes or lower model.context",
        source, size, context));
  }
  const auto text = std::make_shared<const Bytes>(std::move(bytes));
  return DataSets{std::make_unique<TextSet>(text, 0, cut, context),
                  std::make_unique<TextSet>(text, cut, size, context),
                  {}};
}

}  // namespace

const DataSource DataSources::text = {.form = "text:FILE-or-DIR",
                                      .load = [](const config::DataConfig& data, const std::string& place,
                                                 std::int64_t context) -> absl::StatusOr<DataSets> {
                                        PACELINE_ASSIGN_OR_RETURN(Bytes bytes,
                                                                  read_text(place, data.max_bytes));
                                        return text_sets(std::move(bytes), data.source, context);
                                      }};

const DataSource DataSources::headers = {.form = "headers",
                                         .load = [](const config::DataConfig& data, const std::string&,
                                                    std::int64_t context) -> absl::StatusOr<DataSets> {
                                           PACELINE_ASSIGN_OR_RETURN(
                                               Bytes bytes, read_headers(kHeadersRoot, data.max_bytes));
                                           return text_sets(std::move(bytes), data.source, context);
                                         }};

}  // namespace paceline::train
