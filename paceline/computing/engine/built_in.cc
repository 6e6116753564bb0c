#include "paceline/computing/engine/built_in.h"

namespace paceline::engine {

namespace {

const BuiltIn* g_built_in = nullptr;

}  // namespace

const BuiltIn* built_in() { return g_built_in; }
void use_built_in(const BuiltIn& models) { g_built_in = &models; }

absl::Status no_built_in_models() {
  return absl::FailedPreconditionError(
      "the built-in models need paceline-torch, which is not beside paceline; [program] trains a model "
      "of "
      "your own");
}

}  // namespace paceline::engine
