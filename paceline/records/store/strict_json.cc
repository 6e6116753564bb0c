#include "paceline/records/store/strict_json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::store {

using nlohmann::json;

namespace {

// Builds the document event by event. The library's DOM parser would keep the last of two equal keys.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(std::size_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) return fail("a key is there twice");
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("not valid JSON at byte {}", position));
  }

  const std::string& problem() const { return problem_; }
  json take() { return std::move(root_); }

 private:
  json& put(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return (*open_.back())[key_] = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool add(json value) {
    put(std::move(value));
    return true;
  }
  bool open(json container) {
    if (open_.size() >= max_depth_) return fail("nested too deeply");
    open_.push_back(&put(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  const std::size_t max_depth_;
  json root_;
  std::vector<json*> open_;  // the containers around the next value; only the innermost grows, so none moves
  std::string key_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> parse_strict_json(const std::string& text, std::size_t max_depth) {
  Builder builder(max_depth);
  if (!json::sax_parse(text, &builder)) return absl::DataLossError(builder.problem());
  return builder.take();
}

absl::StatusOr<std::int64_t> whole_number(const json& value, const std::string& name) {
  // A number beyond 63 bits is read as a negative one here.
  const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= 0;
  if (!fits) return absl::DataLossError(fmt::format("'{}' is not a whole number from 0 on", name));
  return value.get<std::int64_t>();
}

absl::StatusOr<const json*> member_of(const json& object, const std::string& key) {
  const bool there = object.is_object() && object.contains(key);
  if (!there) return absl::DataLossError(fmt::format("'{}' is missing", key));
  return &object.at(key);
}

absl::StatusOr<std::int64_t> whole_number_of(const json& object, const std::string& key) {
  PACELINE_ASSIGN_OR_RETURN(const json* value, member_of(object, key));
  return whole_number(*value, key);
}

}  // namespace paceline::store
