#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/train/catch_torch.h"
#include "paceline/train/dataset.h"
#include "paceline/train/first_samples.h"
#include "paceline/train/image_set.h"
#include "paceline/train/npy_set.h"
#include "paceline/train/test_with_rest.h"
#include "paceline/train/text.h"
#include "paceline/train/text_set.h"

namespace paceline::train {

namespace {

constexpr char kHeadersRoot[] = "/usr/include/c++";

DataSets image_sets(ImageSplit split, ImageShape shape, const Normalization& normalization, bool augment,
                    std::int64_t classes = kImageClasses) {
  return {std::make_unique<ImageSet>(std::move(split.train), shape, normalization, augment, classes),
          std::make_unique<ImageSet>(std::move(split.test), shape, normalization, false, classes),
          {}};
}

absl::StatusOr<DataSets> load_cifar10(const std::string& directory, bool augment) {
  PACELINE_ASSIGN_OR_RETURN(ImageSplit split, read_cifar10(directory));
  const Normalization normalization{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  return image_sets(std::move(split), kCifarShape, normalization, augment);
}

absl::StatusOr<DataSets> load_cifar100(const std::string& directory, bool augment) {
  PACELINE_ASSIGN_OR_RETURN(ImageSplit split, read_cifar100(directory));
  const Normalization normalization{{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}};
  return image_sets(std::move(split), kCifarShape, normalization, augment, kCifar100Classes);
}

absl::StatusOr<DataSets> load_mnist(const std::string& directory) {
  PACELINE_ASSIGN_OR_RETURN(ImageSplit split, read_mnist(directory));
  const std::string note =
      split.both_of_test_files
          ? fmt::format(
                "{}: only MNIST's test files are here: {} of their images train and {} test, so the accuracy "
                "is not MNIST's; add train-images-idx3-ubyte and train-labels-idx1-ubyte",
                directory, split.train.labels.size(), split.test.labels.size())
          : "";
  DataSets sets = image_sets(std::move(split), kMnistShape, Normalization{{0.1307f}, {0.3081f}}, false);
  sets.note = note;
  return sets;
}

// The last tenth is the test set.
absl::StatusOr<DataSets> text_sets(Bytes bytes, const std::string& source, std::int64_t context) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t cut = size - size / 10;
  if (context < 1 || size / 10 <= context) {
    return absl::InvalidArgumentError(
        fmt::format("data.source = \"{}\": {} bytes, a tenth of which test, are too few for samples of "
                    "model.context = {} bytes; name more text, raise data.max_bytes or lower model.context",
                    source, size, context));
  }
  const auto text = std::make_shared<const Bytes>(std::move(bytes));
  return DataSets{std::make_unique<TextSet>(text, 0, cut, context),
                  std::make_unique<TextSet>(text, cut, size, context),
                  {}};
}

absl::StatusOr<DataSets> load_all(const config::DataConfig& data, std::int64_t context) {
  const std::size_t colon = data.source.find(':');
  const std::string kind = data.source.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : data.source.substr(colon + 1);
  if (data.augment && kind != "cifar10" && kind != "cifar100") {
    return absl::InvalidArgumentError(fmt::format(
        "data.augment = true is for cifar10 and cifar100 only, not for data.source = \"{}\"; set it to false",
        data.source));
  }
  if (kind == "cifar10" && !path.empty()) return load_cifar10(path, data.augment);
  if (kind == "cifar100" && !path.empty()) return load_cifar100(path, data.augment);
  if (kind == "mnist" && !path.empty()) return load_mnist(path);
  if (kind == "npy" && !path.empty()) return read_npy(path);
  absl::StatusOr<Bytes> text =
      absl::InvalidArgumentError(fmt::format("data.source = \"{}\": want \"cifar10:DIR\", \"cifar100:DIR\", "
                                             "\"mnist:DIR\", \"npy:DIR\", \"text:FILE-or-DIR\" or "
                                             "\"headers\"",
                                             data.source));
  if (kind == "text" && !path.empty()) text = read_text(path, data.max_bytes);
  if (data.source == "headers") text = read_headers(kHeadersRoot, data.max_bytes);
  if (!text.ok()) return text.status();
  return text_sets(*std::move(text), data.source, context);
}

// Wraps `set` when only the first `count` samples are wanted. `key` names the setting.
absl::Status keep_first(std::int64_t count, const std::string& key, const std::string& source,
                        std::unique_ptr<DataSet>& set) {
  if (count == 0) return absl::OkStatus();
  if (count < 0 || count > set->size()) {
    return absl::InvalidArgumentError(
        fmt::format("data.{} = {}: data.source = \"{}\" has {}; ask for no more, or 0 for all", key, count,
                    source, set->size()));
  }
  set = std::make_unique<FirstSamples>(std::move(set), static_cast<std::int32_t>(count));
  return absl::OkStatus();
}

// What is not trained on tests as well.
absl::Status test_rest(const config::DataConfig& data, DataSets& sets) {
  const std::shared_ptr<const DataSet> all = std::move(sets.train);
  if (data.train_samples <= 0 || data.train_samples >= all->size()) {
    return absl::InvalidArgumentError(
        fmt::format("data.test_rest = true: data.train_samples = {} leaves nothing out of the {} samples of "
                    "data.source = \"{}\"; set it to fewer, or leave test_rest out",
                    data.train_samples, all->size(), data.source));
  }
  if (data.augment) {
    return absl::InvalidArgumentError(
        "data.test_rest = true: what is left out of a training set that is augmented would be augmented too; "
        "set data.augment to false");
  }
  const auto trained = static_cast<std::int32_t>(data.train_samples);
  sets.test = std::make_unique<TestWithRest>(std::move(sets.test), all, trained);
  sets.train = std::make_unique<FirstSamples>(all, trained);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataSets> load_data(const config::DataConfig& data, std::int64_t context) {
  return catch_torch("loading data", [&]() -> absl::StatusOr<DataSets> {
    PACELINE_ASSIGN_OR_RETURN(DataSets sets, load_all(data, context));
    if (data.test_rest) {
      PACELINE_RETURN_IF_ERROR(test_rest(data, sets));
    } else {
      PACELINE_RETURN_IF_ERROR(keep_first(data.train_samples, "train_samples", data.source, sets.train));
    }
    PACELINE_RETURN_IF_ERROR(keep_first(data.test_samples, "test_samples", data.source, sets.test));
    return sets;
  });
}

}  // namespace paceline::train
