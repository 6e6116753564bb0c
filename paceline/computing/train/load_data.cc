#include <map>
#include <set>
#include <string>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/likely_meant.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/train/catch_torch.h"
#include "paceline/computing/train/data_sources.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/first_samples.h"
#include "paceline/computing/train/test_with_rest.h"

namespace paceline::train {

namespace {

std::string list_forms(bool (*wanted)(const DataSource&)) {
  std::vector<std::string> forms;
  for (const DataSource* source : data_sources()) {
    if (wanted(*source)) forms.push_back(fmt::format("\"{}\"", source->form));
  }
  return absl::StrJoin(forms, ", ");
}

// The line of the table that fits `source`; null if there is none.
const DataSource* find_source(const std::string& source) {
  const std::size_t colon = source.find(':');
  for (const DataSource* one : data_sources()) {
    const std::string form = one->form;
    const std::size_t form_colon = form.find(':');
    const bool as_written = form_colon == std::string::npos
                                ? source == form
                                : colon == form_colon && colon + 1 < source.size() &&
                                      source.compare(0, colon, form, 0, colon) == 0;
    if (as_written) return one;
  }
  return nullptr;
}

std::string name_in(const std::string& source) { return source.substr(0, source.find(':')); }

// The error for a source that is like no line of the table.
absl::Status unknown_source(const std::string& source) {
  const std::string name = name_in(source);
  std::map<std::string, std::string> forms;
  std::set<std::string> names;
  for (const DataSource* one : data_sources()) {
    forms[name_in(one->form)] = one->form;
    names.insert(name_in(one->form));
  }
  if (const auto known = forms.find(name); known != forms.end()) {
    const std::string& form = known->second;
    if (form == name)
      return absl::InvalidArgumentError(fmt::format("data.source: '{0}' names no file; write \"{0}\"", name));
    const char* place = form.ends_with(":DIR") ? "a folder" : "a file or a folder";
    return absl::InvalidArgumentError(
        fmt::format("data.source: name {} after the colon: \"{}\"", place, form));
  }
  const auto meant = likely_meant(name, names);
  return absl::InvalidArgumentError(
      fmt::format("data.source: '{}' is unknown; {}", name,
                  meant ? fmt::format("did you mean \"{}\"?", forms[*meant])
                        : "write one of: " + list_forms([](const DataSource&) { return true; })));
}

// Names the key of the file about which a loader complains.
absl::Status about_source(const absl::Status& status) {
  const std::string said(status.message());
  if (status.ok() || said.starts_with("data.") || said.starts_with("model.")) return status;
  return {status.code(), "data.source: " + said};
}

absl::StatusOr<DataSets> load_all(const config::DataConfig& data, std::int64_t context) {
  const DataSource* source = find_source(data.source);
  if (source == nullptr) return unknown_source(data.source);
  if (data.augment && !source->augments) {
    return absl::InvalidArgumentError(
        fmt::format("data.augment = true is for {} only, not for data.source = \"{}\"; set it to false",
                    list_forms([](const DataSource& one) { return one.augments; }), data.source));
  }
  const std::size_t colon = data.source.find(':');
  auto sets = source->load(data, colon == std::string::npos ? "" : data.source.substr(colon + 1), context);
  if (!sets.ok()) return about_source(sets.status());
  return sets;
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

// Adds to the test set the samples that training leaves out.
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
        "data.test_rest = true: the samples left out of an augmented training set would be augmented too; "
        "set data.augment to false");
  }
  const auto trained = static_cast<std::int32_t>(data.train_samples);
  sets.test = std::make_unique<TestWithRest>(std::move(sets.test), all, trained);
  sets.train = std::make_unique<FirstSamples>(all, trained);
  return absl::OkStatus();
}

}  // namespace

std::span<const DataSource* const> data_sources() {
#define PACELINE_ADDRESS_OF(identifier) &DataSources::identifier,
  static constexpr const DataSource* kTable[] = {PACELINE_DATA_SOURCES(PACELINE_ADDRESS_OF)};
#undef PACELINE_ADDRESS_OF
  return kTable;
}

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
