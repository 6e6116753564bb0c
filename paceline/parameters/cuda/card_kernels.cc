#include "paceline/parameters/cuda/card_kernels.h"

#include "paceline/base/status_macros.h"

namespace paceline::cuda {

absl::StatusOr<CardKernels> CardKernels::load(std::shared_ptr<Card> card, const CardStream& stream) {
  const Driver& cu = card->driver();
  Module module = nullptr;
  PACELINE_RETURN_IF_ERROR(cu.check(cu.module_load(&module, kernels_ptx()), "cuModuleLoadData"));
  return CardKernels(std::move(card), stream, module);
}

CardKernels::~CardKernels() {
  if (module_ != nullptr) card_->driver().module_unload(module_);
}

absl::StatusOr<Function> CardKernels::find(const char* name) {
  const auto found = functions_.find(std::string_view(name));
  if (found != functions_.end()) return found->second;
  const Driver& cu = card_->driver();
  Function function = nullptr;
  PACELINE_RETURN_IF_ERROR(cu.check(cu.module_function(&function, module_, name), name));
  functions_.emplace(name, function);
  return function;
}

absl::Status CardKernels::launch_in(const char* name, unsigned blocks, unsigned threads, void* argument) {
  const Driver& cu = card_->driver();
  PACELINE_ASSIGN_OR_RETURN(const Function function, find(name));
  void* arguments[] = {argument};
  return cu.check(cu.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream_->get(), arguments, nullptr),
                  name);
}

}  // namespace paceline::cuda
