// `paceline` has no built-in models.
#include "paceline/engine/built_in.h"

namespace paceline::engine {

const BuiltIn* built_in() { return nullptr; }

}  // namespace paceline::engine
