// The last word to a process.
#pragma once

#include <string>

#include "paceline/wire/paceline.pb.h"

namespace paceline::wire {

// It was given up; it may come again as a new one.
inline Goodbye given_up(const std::string& why) {
  Goodbye goodbye;
  goodbye.set_again(true);
  goodbye.set_why(why);
  return goodbye;
}

// It is not wanted in this job.
inline Goodbye refused(const std::string& why, Goodbye::Reason reason = Goodbye::NONE) {
  Goodbye goodbye;
  goodbye.set_reason(reason);
  goodbye.set_refused(true);
  goodbye.set_why(why);
  return goodbye;
}

}  // namespace paceline::wire
