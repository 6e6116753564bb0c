// One thing that `paceline doctor` examined: its state, and what to do about it. Pure.
#pragma once

#include <string>

namespace paceline::doctor {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  std::string what;  // "open files"
  Health health = Health::kOk;
  std::string says;   // the result, in words
  std::string fix{};  // advice; empty if all is well
  friend bool operator==(const Finding&, const Finding&) = default;
};

inline const char* word_of(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarn:
      return "warn";
    case Health::kFail:
      break;
  }
  return "fail";
}

}  // namespace paceline::doctor
