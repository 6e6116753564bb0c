// JSON from untrusted files. Any thread.
//
// Invariant: for any bytes the answer is a document or an error; never an exception, a deep recursion or a
// key that silently replaces another.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "paceline/base/printable.h"

namespace paceline::store {

// Errors: DataLoss, in words that fit after "FILE: ". `max_depth`: how deep arrays and objects may be nested.
absl::StatusOr<nlohmann::json> parse_strict_json(const std::string& text, std::size_t max_depth);

// A whole number from 0 on that fits 63 bits; `name` names it in the error. Errors: DataLoss.
absl::StatusOr<std::int64_t> whole_number(const nlohmann::json& value, const std::string& name);

// The value of `key`. Errors: DataLoss if `object` is no object or has no such key.
absl::StatusOr<const nlohmann::json*> member_of(const nlohmann::json& object, const std::string& key);

// whole_number() of member_of().
absl::StatusOr<std::int64_t> whole_number_of(const nlohmann::json& object, const std::string& key);

using paceline::kLongestError;
using paceline::printable;

}  // namespace paceline::store
