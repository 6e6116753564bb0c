// The table of the built-in data sets. A new one is one line here and one source file, which defines
// `const DataSource DataSources::IDENTIFIER`. A line without a definition does not link; a definition without
// a line does not compile. For this folder and its tests; dataset.h is what others use.
#pragma once

#include <span>
#include <string>

#include "paceline/computing/train/dataset.h"

// SOURCE(IDENTIFIER). Messages list them in this order.
#define PACELINE_DATA_SOURCES(SOURCE) \
  SOURCE(digits)                      \
  SOURCE(mnist)                       \
  SOURCE(cifar10)                     \
  SOURCE(cifar100)                    \
  SOURCE(images)                      \
  SOURCE(npy)                         \
  SOURCE(text)                        \
  SOURCE(headers)

namespace paceline::train {

struct DataSource {
  // The form of data.source: a name alone, or "name:" and a word for the place.
  const char* form;
  // Whether data.augment may be true.
  bool augments = false;
  // `place`: the text after the colon, never empty if the form has one. `context`: the bytes of a sample of
  // text. Errors name the file, its fault, and the fix.
  absl::StatusOr<DataSets> (*load)(const config::DataConfig& data, const std::string& place,
                                   std::int64_t context) = nullptr;
};

struct DataSources {
#define PACELINE_DECLARE(identifier) static const DataSource identifier;
  PACELINE_DATA_SOURCES(PACELINE_DECLARE)
#undef PACELINE_DECLARE
};

// The whole table, in its order.
std::span<const DataSource* const> data_sources();

}  // namespace paceline::train
