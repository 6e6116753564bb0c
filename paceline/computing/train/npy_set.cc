#include "paceline/computing/train/npy_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "paceline/base/check.h"
#include "paceline/base/rng.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/read_file.h"

namespace paceline::train {

namespace {

namespace fs = std::filesystem;
using data::NpyFile;
using data::NpyType;

// Above that they are hardly classes, and a model would be as wide as that.
constexpr std::int64_t kMostClasses = 100'000;
constexpr std::int64_t kHashedWhole = std::int64_t{64} << 20;
constexpr std::int64_t kHashedPart = 4096;

absl::Status wrong(const NpyFile& file, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", file.path(), what));
}

template <class T>
T value_at(const std::byte* values, std::int64_t index) {
  T value;
  std::memcpy(&value, values + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// A value of an integer type. An unsigned one that does not fit comes out negative.
std::int64_t integer_at(const NpyFile& file, std::int64_t index) {
  switch (file.type()) {
    case NpyType::kUint8:
      return value_at<std::uint8_t>(file.values(), index);
    case NpyType::kUint16:
      return value_at<std::uint16_t>(file.values(), index);
    case NpyType::kUint32:
      return value_at<std::uint32_t>(file.values(), index);
    case NpyType::kInt8:
      return value_at<std::int8_t>(file.values(), index);
    case NpyType::kInt16:
      return value_at<std::int16_t>(file.values(), index);
    case NpyType::kInt32:
      return value_at<std::int32_t>(file.values(), index);
    case NpyType::kUint64:
    case NpyType::kInt64:
      return value_at<std::int64_t>(file.values(), index);
    case NpyType::kFloat32:
    case NpyType::kFloat64:
      break;
  }
  PACELINE_CHECK(false, "{}: labels of {}", file.path(), data::name_of(file.type()));
  return 0;
}

absl::Status check_samples(const NpyFile& file) {
  const std::vector<std::int64_t>& shape = file.shape();
  if (data::is_integer(file.type()) && file.type() != NpyType::kUint8) {
    return wrong(file, fmt::format("{} samples; save uint8, which is scaled to 0..1, float32 or float64, for "
                                   "example x.astype(\"<f4\")",
                                   data::name_of(file.type())));
  }
  if (shape.size() < 2 || shape.size() > 4) {
    return wrong(file,
                 fmt::format("shape [{}]; save samples of shape [n, features], [n, height, width] or [n, "
                             "channels, height, width]",
                             fmt::join(shape, ", ")));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return wrong(file, fmt::format("shape [{}] holds nothing; save some samples", fmt::join(shape, ", ")));
  if (shape[0] > std::numeric_limits<std::int32_t>::max())
    return wrong(file, fmt::format("{} samples; save at most 2147483647", shape[0]));
  return absl::OkStatus();
}

// The place of the first number that is not finite, in the file's order; −1 if all are finite. A file so
// large that its digest does not read all of it is not read here either.
template <class T>
std::int64_t find_not_finite(const NpyFile& file) {
  const auto count = file.bytes() / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(value_at<T>(file.values(), i))) return i;
  }
  return -1;
}

absl::Status check_finite(const NpyFile& file) {
  if (file.type() == NpyType::kUint8 || file.bytes() > kHashedWhole) return absl::OkStatus();
  const bool is_double = file.type() == NpyType::kFloat64;
  const std::int64_t at = is_double ? find_not_finite<double>(file) : find_not_finite<float>(file);
  if (at < 0) return absl::OkStatus();
  const double value = is_double ? value_at<double>(file.values(), at)
                                 : static_cast<double>(value_at<float>(file.values(), at));
  const std::int64_t numbers = file.bytes() / data::bytes_of(file.type()) / file.shape()[0];
  return wrong(file,
               fmt::format("sample {} holds {}, from which nothing can be learnt; leave the sample out, or "
                           "write a finite number",
                           at / numbers, value));
}

// The labels of `samples`.
absl::StatusOr<std::vector<std::int32_t>> read_labels(const fs::path& path, const NpyFile& samples) {
  PACELINE_ASSIGN_OR_RETURN(const NpyFile file, NpyFile::open(path));
  if (!data::is_integer(file.type())) {
    return wrong(file, fmt::format("{} labels; save integers, for example y.astype(\"<i8\")",
                                   data::name_of(file.type())));
  }
  if (file.shape().size() != 1) {
    return wrong(file, fmt::format("shape [{}], but labels are one number a sample; save y.reshape(-1), or "
                                   "y.argmax(1) where each has a row of zeros and a one",
                                   fmt::join(file.shape(), ", ")));
  }
  if (file.shape()[0] != samples.shape()[0]) {
    return wrong(file, fmt::format("{} labels, but {} has {} samples; save both again from the same data",
                                   file.shape()[0], samples.path(), samples.shape()[0]));
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < file.shape()[0]; ++i) {
    const std::int64_t label = integer_at(file, i);
    if (label < 0 || label >= kMostClasses) {
      return wrong(file,
                   fmt::format("label {} of sample {}; number the classes 0, 1, 2 and so on, to {} at most",
                               label, i, kMostClasses - 1));
    }
    labels.push_back(static_cast<std::int32_t>(label));
  }
  return labels;
}

absl::Status check_like_training(const NpyFile& test, const NpyFile& train) {
  if (!std::equal(test.shape().begin() + 1, test.shape().end(), train.shape().begin() + 1,
                  train.shape().end())) {
    return wrong(test,
                 fmt::format("shape [{}], but {} has [{}]; samples for testing and for training need "
                             "the same shape",
                             fmt::join(test.shape(), ", "), train.path(), fmt::join(train.shape(), ", ")));
  }
  if (test.type() != train.type()) {
    return wrong(test, fmt::format("{} samples, but {} has {}; save both alike", data::name_of(test.type()),
                                   train.path(), data::name_of(train.type())));
  }
  return absl::OkStatus();
}

absl::Status check_classes(const fs::path& path, const std::vector<std::int32_t>& labels,
                           std::int64_t classes) {
  const auto outside =
      std::find_if(labels.begin(), labels.end(), [&](std::int32_t label) { return label >= classes; });
  if (outside == labels.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: label {} of sample {}, but y.npy has labels from 0 to {} only; the classes are the same "
      "in both files",
      path.string(), *outside, outside - labels.begin(), classes - 1));
}

ImageShape shape_of(const NpyFile& file) {
  std::vector<std::int64_t> shape(file.shape().begin() + 1, file.shape().end());
  shape.insert(shape.begin(), 3 - shape.size(), 1);
  return {shape[0], shape[1], shape[2]};
}

void copy_values(const NpyFile& file, std::int64_t first, std::int64_t count, float* out) {
  const std::byte* in = file.values() + first * data::bytes_of(file.type());
  switch (file.type()) {
    case NpyType::kFloat32:
      std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case NpyType::kFloat64:
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(value_at<double>(in, i));
      return;
    default:
      PACELINE_CHECK(file.type() == NpyType::kUint8, "{}: samples of {}", file.path(),
                     data::name_of(file.type()));
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = static_cast<float>(std::to_integer<int>(in[i])) / 255.0f;
  }
}

std::uint64_t hash_of(const std::byte* bytes, std::int64_t count) {
  return bytes_hash({reinterpret_cast<const std::uint8_t*>(bytes), static_cast<std::size_t>(count)});
}

}  // namespace

absl::StatusOr<DataSets> read_npy(const fs::path& directory) {
  PACELINE_RETURN_IF_ERROR(require_directory(directory, "x.npy, y.npy, x_test.npy and y_test.npy"));
  PACELINE_ASSIGN_OR_RETURN(NpyFile samples, NpyFile::open(directory / "x.npy"));
  PACELINE_RETURN_IF_ERROR(check_samples(samples));
  PACELINE_RETURN_IF_ERROR(check_finite(samples));
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::int32_t> labels, read_labels(directory / "y.npy", samples));
  PACELINE_ASSIGN_OR_RETURN(NpyFile test, NpyFile::open(directory / "x_test.npy"));
  PACELINE_RETURN_IF_ERROR(check_samples(test));
  PACELINE_RETURN_IF_ERROR(check_finite(test));
  PACELINE_RETURN_IF_ERROR(check_like_training(test, samples));
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::int32_t> test_labels,
                            read_labels(directory / "y_test.npy", test));
  const std::int64_t classes = *std::max_element(labels.begin(), labels.end()) + std::int64_t{1};
  PACELINE_RETURN_IF_ERROR(check_classes(directory / "y_test.npy", test_labels, classes));
  const ImageShape sample = shape_of(samples);
  return DataSets{std::make_unique<NpySet>(std::move(samples), sample, std::move(labels), classes),
                  std::make_unique<NpySet>(std::move(test), sample, std::move(test_labels), classes),
                  {}};
}

NpySet::NpySet(NpyFile samples, ImageShape sample, std::vector<std::int32_t> labels, std::int64_t classes)
    : samples_(std::move(samples)), sample_(sample), labels_(std::move(labels)), classes_(classes) {
  PACELINE_CHECK(samples_.bytes() == size() * sample_.size() * data::bytes_of(samples_.type()),
                 "{} bytes of samples, {} labels", samples_.bytes(), size());
}

std::vector<std::int64_t> NpySet::sample_shape() const {
  return {sample_.channels, sample_.height, sample_.width};
}

Batch NpySet::batch(std::span<const std::int32_t> indices, std::uint64_t) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  Batch batch{torch::empty({count, sample_.channels, sample_.height, sample_.width}, torch::kFloat32),
              torch::empty({count}, torch::kInt64)};
  float* out = batch.inputs.data_ptr<float>();
  auto* target = batch.targets.data_ptr<std::int64_t>();
  for (const std::int32_t index : indices) {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    copy_values(samples_, index * sample_.size(), sample_.size(), out);
    out += sample_.size();
    *target++ = labels_[static_cast<std::size_t>(index)];
  }
  return batch;
}

std::uint64_t NpySet::digest() const {
  std::uint64_t hash =
      mix_seed({static_cast<std::uint64_t>(samples_.type()), static_cast<std::uint64_t>(sample_.channels),
                static_cast<std::uint64_t>(sample_.height), static_cast<std::uint64_t>(samples_.bytes()),
                hash_of(reinterpret_cast<const std::byte*>(labels_.data()),
                        static_cast<std::int64_t>(labels_.size() * sizeof(std::int32_t)))});
  const std::int64_t bytes = samples_.bytes();
  if (bytes <= kHashedWhole) return mix_seed({hash, hash_of(samples_.values(), bytes)});
  constexpr std::int64_t kParts = kHashedWhole / kHashedPart;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t begin = (bytes - kHashedPart) / (kParts - 1) * part;
    hash = mix_seed({hash, hash_of(samples_.values() + begin, kHashedPart)});
  }
  return hash;
}

const DataSource DataSources::npy = {
    .form = "npy:DIR", .load = [](const config::DataConfig&, const std::string& place, std::int64_t) {
      return read_npy(place);
    }};

}  // namespace paceline::train
