// Messages of any type with anything in them: what a process may say that belongs to a job and has lost its
// mind.
#pragma once

#include <google/protobuf/message.h>

#include "paceline/base/rng.h"

namespace paceline::tests {

// About half of the fields are set, and of a oneof each field equally often: numbers often at the ends of their range, text often a name or a path
// that means something. Deeper than `depth` messages are empty.
void fill_at_random(google::protobuf::Message& message, Rng& rng, int depth = 4);

}  // namespace paceline::tests
