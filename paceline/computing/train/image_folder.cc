// Images of the user's own: a folder a class, PNG or JPEG, all of one size. DIR/train/CLASS and
// DIR/test/CLASS; or DIR/CLASS alone: then every fifth file is for the test.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/data/image_file.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/image_set.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostFolders = 256;  // a label is a byte
constexpr std::size_t kTestsOneOf = 5;

struct Labelled {
  fs::path path;
  std::uint8_t label = 0;
};
struct Files {
  std::vector<Labelled> train;
  std::vector<Labelled> test;
};

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Sorted, so that a class has the same number everywhere.
absl::StatusOr<std::vector<std::string>> folders_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_folder(entry->path()) && !hidden(entry->path()))
      names.push_back(entry->path().filename().string());
  }
  if (error)
    return absl::NotFoundError(fmt::format("{}: cannot be listed ({})", directory.string(), error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

// The images of each class, ordered by name.
absl::StatusOr<std::vector<std::vector<Labelled>>> list_classes(const fs::path& directory,
                                                                const std::vector<std::string>& classes) {
  std::vector<std::vector<Labelled>> lists;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<Labelled>& list = lists.emplace_back();
    if (!is_folder(directory / classes[label])) continue;
    PACELINE_ASSIGN_OR_RETURN(const std::vector<fs::path> files,
                              list_files(directory / classes[label], Depth::kTop));
    for (const fs::path& file : files) {
      if (!hidden(file)) list.push_back({file, static_cast<std::uint8_t>(label)});
    }
  }
  return lists;
}

// Takes one image of each class in turn, so that the first N of them have some of every class.
std::vector<Labelled> in_turn(const std::vector<std::vector<Labelled>>& lists) {
  std::vector<Labelled> all;
  for (std::size_t i = 0;; ++i) {
    const std::size_t before = all.size();
    for (const auto& list : lists) {
      if (i < list.size()) all.push_back(list[i]);
    }
    if (all.size() == before) return all;
  }
}

absl::Status check_classes(const fs::path& directory, const std::vector<std::string>& classes) {
  if (classes.size() >= 2 && classes.size() <= kMostFolders) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: {}, but a data set has a folder for each class, from 2 to {}; put images of "
      "class A into {}",
      directory.string(), counted(std::ssize(classes), "folder"), kMostFolders, (directory / "A").string()));
}

// A class that nothing is learnt of is a mistake, not a class.
absl::Status check_none_empty(const fs::path& directory, const std::vector<std::string>& classes,
                              const std::vector<std::vector<Labelled>>& lists) {
  for (std::size_t c = 0; c < lists.size(); ++c) {
    if (!lists[c].empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: no image is in it; put images of this class there, or remove the folder",
                    (directory / classes[c]).string()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Files> split_by_folder(const fs::path& directory, std::vector<std::string>& classes) {
  PACELINE_ASSIGN_OR_RETURN(classes, folders_in(directory / "train"));
  PACELINE_RETURN_IF_ERROR(check_classes(directory / "train", classes));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> tested, folders_in(directory / "test"));
  for (const std::string& name : tested) {
    if (std::binary_search(classes.begin(), classes.end(), name)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: a class that {} does not have; add it there, or leave it out",
                    (directory / "test" / name).string(), (directory / "train").string()));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto train, list_classes(directory / "train", classes));
  PACELINE_RETURN_IF_ERROR(check_none_empty(directory / "train", classes, train));
  PACELINE_ASSIGN_OR_RETURN(const auto test, list_classes(directory / "test", classes));
  return Files{in_turn(train), in_turn(test)};
}

absl::StatusOr<Files> split_by_fifth(const fs::path& directory, std::vector<std::string>& classes) {
  PACELINE_ASSIGN_OR_RETURN(classes, folders_in(directory));
  PACELINE_RETURN_IF_ERROR(check_classes(directory, classes));
  PACELINE_ASSIGN_OR_RETURN(const auto lists, list_classes(directory, classes));
  PACELINE_RETURN_IF_ERROR(check_none_empty(directory, classes, lists));
  std::vector<std::vector<Labelled>> train(lists.size()), test(lists.size());
  for (std::size_t c = 0; c < lists.size(); ++c) {
    for (std::size_t i = 0; i < lists[c].size(); ++i)
      (i % kTestsOneOf == kTestsOneOf - 1 ? test : train)[c].push_back(lists[c][i]);
  }
  return Files{in_turn(train), in_turn(test)};
}

absl::Status about(const fs::path& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path.string(), std::string(status.message())));
}

// The header that all images must have: that of the first one.
struct Like {
  fs::path first;
  data::ImageHeader header;
};

absl::Status look_at(const std::vector<Labelled>& files, Like& like) {
  for (const Labelled& file : files) {
    Bytes bytes;
    PACELINE_RETURN_IF_ERROR(append_file(file.path, kNoLimit, bytes));
    const auto header = data::read_image_header(bytes);
    if (!header.ok()) return about(file.path, header.status());
    if (like.first.empty()) like = {file.path, *header};
    if (header->width != like.header.width || header->height != like.header.height) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {} x {} pixels, but {} has {} x {}; scale all images to one size", file.path.string(),
          header->width, header->height, like.first.string(), like.header.width, like.header.height));
    }
    like.header.colour = like.header.colour || header->colour;
  }
  return absl::OkStatus();
}

absl::StatusOr<Images> read_images(const std::vector<Labelled>& files, ImageShape shape) {
  Images images;
  images.pixels.resize(files.size() * static_cast<std::size_t>(shape.size()));
  std::span<std::uint8_t> left = images.pixels;
  for (const Labelled& file : files) {
    Bytes bytes;
    PACELINE_RETURN_IF_ERROR(append_file(file.path, kNoLimit, bytes));
    const auto header = data::read_image_header(bytes);
    if (!header.ok()) return about(file.path, header.status());
    if (header->width != shape.width || header->height != shape.height)
      return absl::InvalidArgumentError(file.path.string() + ": it changed while it was read");
    const auto decoded = data::decode_image(bytes, *header, static_cast<int>(shape.channels),
                                            left.first(static_cast<std::size_t>(shape.size())));
    if (!decoded.ok()) return about(file.path, decoded);
    left = left.subspan(static_cast<std::size_t>(shape.size()));
    images.labels.push_back(file.label);
  }
  return images;
}

// The normalization of the images to train on. Sums are whole numbers, so every machine has the same.
Normalization measure(const Images& images, ImageShape shape) {
  Normalization normalization;
  const auto plane = static_cast<std::size_t>(shape.plane());
  const double count = static_cast<double>(images.labels.size() * plane);
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    std::int64_t sum = 0, squares = 0;
    for (std::size_t image = 0; image < images.labels.size(); ++image) {
      const std::uint8_t* pixel =
          images.pixels.data() + image * static_cast<std::size_t>(shape.size()) + channel * shape.plane();
      for (std::size_t i = 0; i < plane; ++i) {
        sum += pixel[i];
        squares += pixel[i] * pixel[i];
      }
    }
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(squares) / count - mean * mean;
    normalization.mean.push_back(static_cast<float>(mean / 255));
    normalization.deviation.push_back(static_cast<float>(std::sqrt(std::max(variance, 1.0)) / 255));
  }
  return normalization;
}

absl::StatusOr<DataSets> load_images(const config::DataConfig& data, const std::string& place, std::int64_t) {
  const fs::path directory = place;
  PACELINE_RETURN_IF_ERROR(require_directory(directory, "a folder of images for each class"));
  const bool by_folder = is_folder(directory / "train") && is_folder(directory / "test");
  std::vector<std::string> classes;
  PACELINE_ASSIGN_OR_RETURN(const Files files, by_folder ? split_by_folder(directory, classes)
                                                         : split_by_fifth(directory, classes));
  if (files.train.empty() || files.test.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} images to train on and {} to test with; at least one of each is needed", place,
                    files.train.size(), files.test.size()));
  }
  Like like;
  PACELINE_RETURN_IF_ERROR(look_at(files.train, like));
  PACELINE_RETURN_IF_ERROR(look_at(files.test, like));
  const ImageShape shape{like.header.colour ? 3 : 1, like.header.height, like.header.width};
  ImageSplit split;
  PACELINE_ASSIGN_OR_RETURN(split.train, read_images(files.train, shape));
  PACELINE_ASSIGN_OR_RETURN(split.test, read_images(files.test, shape));
  const Normalization normalization = measure(split.train, shape);
  DataSets sets = image_sets(std::move(split), shape, normalization, data.augment,
                             static_cast<std::int64_t>(classes.size()));
  if (!by_folder)
    sets.note = fmt::format(
        "{}: it has no folders train and test, so every fifth image of a class is for testing", place);
  return sets;
}

}  // namespace

const DataSource DataSources::images = {.form = "images:DIR", .augments = true, .load = load_images};

}  // namespace paceline::train
