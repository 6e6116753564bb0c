// JSON from files that nobody vouches for. Any thread.
//
// Invariant: whatever the bytes, the answer is a document or an error; never an exception, a deep
// recursion or a key that silently replaces another.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace paceline::store {

// Errors: DataLoss, in words that fit after "FILE: ". `max_depth`: arrays and objects within each other.
absl::StatusOr<nlohmann::json> parse_strict_json(const std::string& text, std::size_t max_depth);

// A whole number from 0 on that fits 63 bits; `name` is what the error calls it. Errors: DataLoss.
absl::StatusOr<std::int64_t> whole_number(const nlohmann::json& value, const std::string& name);

// The value of `key`. Errors: DataLoss when `object` is none or has no such key.
absl::StatusOr<const nlohmann::json*> member_of(const nlohmann::json& object, const std::string& key);

// Both in one.
absl::StatusOr<std::int64_t> whole_number_of(const nlohmann::json& object, const std::string& key);

inline constexpr std::size_t kLongestError = 1000;  // what went wrong, in somebody else's words

// A string from a file as part of a one-line message: without control characters, and of no more than `most`
// bytes, with "..." behind it where it was longer.
std::string printable(const std::string& text, std::size_t most = 100);

}  // namespace paceline::store
