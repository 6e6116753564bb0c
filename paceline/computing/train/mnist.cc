#include <string>
#include <system_error>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/idx_file.h"
#include "paceline/computing/train/image_set.h"
#include "paceline/computing/train/images.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

bool there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// `directory`/`name`, or the same with .gz; empty when there is neither.
fs::path find_file(const fs::path& directory, const std::string& name) {
  if (there(directory / name)) return directory / name;
  if (there(directory / (name + ".gz"))) return directory / (name + ".gz");
  return {};
}

absl::StatusOr<IdxFile> read_part(const fs::path& directory, const std::string& name, int dimensions) {
  const fs::path path = find_file(directory, name);
  if (!path.empty()) return read_idx(path, dimensions);
  return absl::NotFoundError(
      fmt::format("{0}: neither {1} nor {1}.gz in it; put MNIST's IDX files there: paceline data mnist {0}",
                  directory.string(), name));
}

absl::Status check_labels(const std::string& where, std::int64_t images, const Bytes& labels) {
  const auto count = static_cast<std::int64_t>(labels.size());
  if (count != images || count == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} images but {} labels; they belong to different sets or are empty: fetch both again", where,
        images, count));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < kImageClasses) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: label {} of image {}, but MNIST's go from 0 to 9; fetch the labels again", where, labels[i], i));
  }
  return absl::OkStatus();
}

// `prefix` is "train" or "t10k".
absl::StatusOr<Images> read_images(const fs::path& directory, const std::string& prefix) {
  PACELINE_ASSIGN_OR_RETURN(IdxFile pixels, read_part(directory, prefix + "-images-idx3-ubyte", 3));
  PACELINE_ASSIGN_OR_RETURN(IdxFile labels, read_part(directory, prefix + "-labels-idx1-ubyte", 1));
  const std::string where = (directory / prefix).string() + "-*";
  if (pixels.extents[1] != kMnistShape.height || pixels.extents[2] != kMnistShape.width) {
    return absl::InvalidArgumentError(
        fmt::format("{}: images of {} x {}, but MNIST's are 28 x 28; fetch them again", where,
                    pixels.extents[1], pixels.extents[2]));
  }
  PACELINE_RETURN_IF_ERROR(check_labels(where, pixels.extents[0], labels.bytes));
  return Images{std::move(pixels.bytes), std::move(labels.bytes)};
}

absl::StatusOr<ImageSplit> split_fifths(Images all) {
  if (all.labels.size() < 5) {
    return absl::InvalidArgumentError(
        "t10k-*: fewer than 5 images cannot be split into train and test; add the train-* files");
  }
  const auto count = static_cast<std::ptrdiff_t>(all.labels.size() / 5 * 4);
  const std::ptrdiff_t pixels = count * kMnistShape.size();
  ImageSplit split;
  split.both_of_test_files = true;
  split.test.labels.assign(all.labels.begin() + count, all.labels.end());
  split.test.pixels.assign(all.pixels.begin() + pixels, all.pixels.end());
  all.labels.resize(static_cast<std::size_t>(count));
  all.pixels.resize(static_cast<std::size_t>(pixels));
  split.train = std::move(all);
  return split;
}

}  // namespace

absl::StatusOr<ImageSplit> read_mnist(const fs::path& directory) {
  PACELINE_RETURN_IF_ERROR(
      require_directory(directory, "MNIST's t10k-images-idx3-ubyte and the other files", "mnist"));
  PACELINE_ASSIGN_OR_RETURN(Images test, read_images(directory, "t10k"));
  if (find_file(directory, "train-images-idx3-ubyte").empty()) return split_fifths(std::move(test));
  PACELINE_ASSIGN_OR_RETURN(Images train, read_images(directory, "train"));
  return ImageSplit{std::move(train), std::move(test)};
}

const DataSource DataSources::mnist = {
    .form = "mnist:DIR",
    .load = [](const config::DataConfig&, const std::string& place,
               std::int64_t) -> absl::StatusOr<DataSets> {
      PACELINE_ASSIGN_OR_RETURN(ImageSplit split, read_mnist(place));
      const std::string note =
          split.both_of_test_files
              ? fmt::format(
                    "{}: only MNIST's test files are here: {} of their images train and {} test, so the "
                    "accuracy is not MNIST's; add train-images-idx3-ubyte and train-labels-idx1-ubyte",
                    place, split.train.labels.size(), split.test.labels.size())
              : "";
      const Normalization normalization{{0.1307f}, {0.3081f}};
      DataSets sets = image_sets(std::move(split), kMnistShape, normalization, false, kImageClasses);
      sets.note = note;
      return sets;
    }};

}  // namespace paceline::train
