// Text as samples: windows of `context` bytes that do not overlap; each byte's target is the byte after it.
// Made by load_data. Never changes, so any thread may call it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/read_file.h"

namespace paceline::train {

class TextSet : public DataSet {
 public:
  // Over bytes [begin, end) of `text`, which the train and the test set share. At least context + 1 bytes.
  TextSet(std::shared_ptr<const Bytes> text, std::int64_t begin, std::int64_t end, std::int64_t context);

  // The last byte has no successor, so a window ends one byte before it or earlier.
  static std::int64_t windows(std::int64_t bytes, std::int64_t context) { return (bytes - 1) / context; }

  std::int32_t size() const override { return size_; }
  std::int64_t classes() const override { return 256; }
  std::vector<std::int64_t> sample_shape() const override { return {context_}; }
  Batch batch(std::span<const std::int32_t> indices, std::uint64_t augment_seed) const override;
  std::uint64_t digest() const override;

 private:
  std::shared_ptr<const Bytes> text_;
  std::int64_t begin_;
  std::int64_t context_;
  std::int32_t size_;
};

}  // namespace paceline::train
